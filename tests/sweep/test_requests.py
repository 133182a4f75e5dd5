"""Which requests a measurement sends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.sweep.config import MAX_SEED, SweepConfig
from specbench.sweep.requests import REFILLS_PER_SLOT, request_order, warm_up_requests
from specbench.workloads.load import load_workload
from specbench.workloads.prompt import Workload


def test_a_lines_own_fields_reach_the_body_and_win_over_the_runs(tmp_path: Path) -> None:
    path = tmp_path / "tools.jsonl"
    path.write_text(
        '{"id": "a", "prompt": "Red or blue?", "structured_outputs": {"choice": ["red", "blue"]}, "stop": ["."]}\n'
        '{"id": "b", "prompt": "Think.", "chat_template_kwargs": {"enable_thinking": true}}\n'
    )
    config = SweepConfig(workload=(path,), chat_template_kwargs={"enable_thinking": False, "style": "short"})
    bodies = {r.prompt_id: r.body("m") for r in request_order(load_workload(path), config, batch_size=1)}
    assert bodies["a"]["structured_outputs"] == {"choice": ["red", "blue"]}
    assert bodies["a"]["stop"] == ["."]
    assert bodies["a"]["chat_template_kwargs"] == {"enable_thinking": False, "style": "short"}
    assert bodies["b"]["chat_template_kwargs"] == {"enable_thinking": True, "style": "short"}
    assert "structured_outputs" not in bodies["b"]


def test_without_such_fields_none_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text('{"prompt": "Hello"}\n')
    [spec, *_] = request_order(load_workload(path), SweepConfig(workload=(path,)), batch_size=1)
    assert spec.extra == {}


def test_the_last_request_of_the_largest_seed_has_one_that_servers_take(tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text('{"prompt": "Hello"}\n')
    *_, last = request_order(load_workload(path), SweepConfig(workload=(path,), seed=MAX_SEED), batch_size=1024)
    assert MAX_SEED < (last.seed or 0) < 2**63


def test_further_warm_up_cohorts_are_other_prompts(tmp_path: Path) -> None:
    path = tmp_path / "w.jsonl"
    path.write_text("".join(f'{{"id": "p{i}", "prompt": "Hello {i}"}}\n' for i in range(6)))
    workload, config = load_workload(path), SweepConfig(workload=(path,))
    cohorts = [{r.prompt_id for r in warm_up_requests(workload, config, 2, cohort)} for cohort in range(3)]
    assert len(set.union(*cohorts)) == 6


def conversations(folder: Path, turns: list[int], **fields: object) -> tuple[Workload, SweepConfig]:
    path = folder / "talk.jsonl"
    path.write_text(
        "".join(
            json.dumps({"id": f"c{i}", "messages": [{"role": "user", "content": f"{i}.0"}]})[:-1]
            + (f', "follow_ups": {json.dumps([f"{i}.{k}" for k in range(1, n)])}}}\n' if n > 1 else "}\n")
            for i, n in enumerate(turns)
        )
    )
    config = SweepConfig.model_validate({"workload": (path,), **fields})
    return load_workload(path), config


@given(
    st.lists(st.integers(1, 4), min_size=8, max_size=40),
    st.sampled_from([(1,), (1, 4), (8,)]),
    st.integers(0, 5),
    st.integers(1, 200),
)
def test_every_turn_comes_after_the_one_before_and_far_behind_it(tmp_path_factory, turns, batches, seed, count) -> None:
    workload, config = conversations(tmp_path_factory.mktemp("t"), turns, batch_size=batches, seed=seed, requests=count)
    requests = request_order(workload, config, batches[-1])
    other = request_order(workload, config, batches[0])
    assert other[: len(requests)] == requests[: len(other)]  # whatever the batch size
    whole = sum(turns)
    assert len(requests) == max(count, REFILLS_PER_SLOT * batches[-1])
    first = requests[: min(whole, len(requests))]
    assert len({r.prompt_id for r in first}) == len(first)
    gap = 2 * batches[-1]
    for r in requests:
        said = (r.messages or ())[-1]["content"]
        talk, turn = said.split(".")
        assert r.prompt_id == (f"c{talk}" if turn == "0" else f"c{talk}#{int(turn) + 1}")
        if r.follows is None:
            assert turn == "0"
            continue
        before = requests[r.follows]
        assert (before.messages or ())[-1]["content"] == f"{talk}.{int(turn) - 1}"
        distance = r.index - before.index
        others_left = any(q.follows is None for q in requests[r.index : (r.index // whole + 1) * whole])
        assert distance >= gap if others_left else distance >= 1


def test_fewer_conversations_than_slots_are_refused_and_as_many_prompts_are_not(tmp_path: Path) -> None:
    workload, config = conversations(tmp_path, [2, 1, 1], batch_size=(4,))
    with pytest.raises(SpecbenchError, match="3 conversations cannot keep 4 requests in flight"):
        request_order(workload, config, 4)
    workload, config = conversations(tmp_path, [1, 1, 1], batch_size=(4,))
    assert len(request_order(workload, config, 4)) == 16
