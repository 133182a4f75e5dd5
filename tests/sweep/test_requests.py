"""Which requests a measurement sends."""

from __future__ import annotations

from pathlib import Path

from specbench.sweep.config import MAX_SEED, SweepConfig
from specbench.sweep.requests import request_order, warm_up_requests
from specbench.workloads.load import load_workload


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
