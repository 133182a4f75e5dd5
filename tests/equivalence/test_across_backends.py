from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import request
from typer.testing import CliRunner

from specbench.cli.main import app
from specbench.equivalence.across_backends import align, compare_cells, compare_runs
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore

GAMMA = 3
CELL = Cell("vllm", "demo", "chat", Speculation("ngram", GAMMA), 1, 0.0)
FOUND = st.tuples(st.integers(0, GAMMA), st.integers(0, GAMMA)).map(lambda pair: (max(pair), min(pair)))
"""What a drafter proposes at a step and how much of it the target would keep."""


def every_step(tokens: int, found: list[tuple[int, int]]) -> RequestAcceptance:
    """As the reference decoder lists it: all steps, drafting no more than the output has room for."""
    left, steps = tokens - 1, []
    for drafted, accepted in [*found, *[(0, 0)] * tokens]:
        if left <= 0:
            break
        room = left - 1
        steps.append((min(drafted, room), min(accepted, room)))
        left -= steps[-1][1] + 1
    return acceptance(steps)


def drafts_alone(tokens: int, found: list[tuple[int, int]]) -> RequestAcceptance:
    """As vLLM lists it: steps with a draft, the last counted whole whatever the token limit."""
    left, steps = tokens - 1, []
    for drafted, accepted in [*found, *[(0, 0)] * tokens]:
        if left <= 0:
            break
        if drafted:
            steps.append((drafted, accepted))
        left -= accepted + 1
    return acceptance(steps)


def acceptance(steps: list[tuple[int, int]]) -> RequestAcceptance:
    drafted, accepted = (tuple(step[i] for step in steps) for i in (0, 1))
    return RequestAcceptance(len(steps), sum(drafted), sum(accepted), drafted, accepted)


@given(st.integers(1, 30), st.lists(FOUND, max_size=40))
def test_two_ways_of_listing_the_same_steps_are_found_to_agree(tokens: int, found: list[tuple[int, int]]) -> None:
    aligned = align(tokens, every_step(tokens, found), drafts_alone(tokens, found))
    assert aligned is not None
    assert aligned[0] == aligned[1]
    assert align(tokens, drafts_alone(tokens, found), every_step(tokens, found)) == aligned


@given(st.lists(FOUND.filter(lambda step: step[0] > 0), min_size=1, max_size=20), st.data())
def test_one_token_more_or_fewer_is_found(found: list[tuple[int, int]], data: st.DataObject) -> None:
    tokens = 100  # room for all of them
    step = data.draw(st.integers(0, len(found) - 1))
    drafted, accepted = found[step]
    wrong = [*found]
    wrong[step] = (drafted, accepted - 1) if accepted else (drafted + 1, accepted)
    aligned = align(tokens, every_step(tokens, found), acceptance(wrong))
    assert aligned is not None
    assert aligned[0] != aligned[1]


def test_the_end_of_the_output_inside_a_draft_counts_up_to_there() -> None:
    # Three tokens accepted, the last of them the end of sequence: the reference decoder stops there, vLLM drafts on.
    aligned = align(5, acceptance([(3, 0), (3, 3)]), acceptance([(3, 0), (3, 3)]))
    assert aligned == ([(3, 0), (2, 2)], [(3, 0), (2, 2)])


def test_without_an_engine_that_lists_every_step_nothing_is_compared() -> None:
    few = acceptance([(3, 1)])
    assert align(20, few, few) is None
    assert align(20, few, None) is None
    assert align(20, RequestAcceptance(10, 20, 9), every_step(20, [])) is None


def traces(*accepted: int, **changes: Any) -> tuple[Any, ...]:
    return tuple(request(i, gamma=GAMMA, accepted=kept, length=21, **changes) for i, kept in enumerate(accepted))


def test_requests_with_the_same_ids_and_steps_agree() -> None:
    cell = compare_cells(CELL, traces(1, 2), traces(1, 2))
    assert (cell.verdict, cell.requests, cell.same_ids, cell.compared) == ("AGREE", 2, 2, 2)
    assert cell.mean_acceptance_length_per_draft_a == cell.mean_acceptance_length_per_draft_b


def test_the_first_step_that_differs_is_named() -> None:
    cell = compare_cells(CELL, traces(1, 2), traces(1, 1))
    assert cell.verdict == "DIFFER"
    (difference,) = cell.differences
    assert (difference.prompt_id, difference.step, difference.a, difference.b) == ("p001", 0, (3, 2), (3, 1))


def test_other_ids_are_a_difference_and_their_steps_are_not_compared() -> None:
    other = (*traces(1), *traces(1, 1, token_ids=tuple(range(21)))[1:])
    cell = compare_cells(CELL, traces(1, 1), other)
    assert (cell.verdict, cell.same_ids, cell.compared, cell.differences) == ("DIFFER", 1, 1, ())


def test_the_baseline_is_compared_by_its_ids() -> None:
    plain = tuple(request(i) for i in range(2))
    cell = compare_cells(Cell("vllm", "demo", "chat", BASELINE, 1, 0.0), plain, plain)
    assert (cell.verdict, cell.compared) == ("AGREE", 0)


def measurement(id: str, cell: Cell, requests: tuple[RequestTrace, ...]) -> Measurement:
    return Measurement(id, "none-r0", cell, 0, 0, "ok", "2030-01-01T00:00:00", traces=requests)


def run(path: Path, backend: str, **changes: Any) -> RunStore:
    config = {"max_tokens": 21, "temperature": 0.0, "seed": 0, "prompts": None, "dtype": "float32"}
    manifest = {"target": {"digest": "t"}, "workloads": [{"sha256": "w"}], "drafters": {}, "config": config | changes}
    store = RunStore.create(path, manifest)
    store.write(
        Measurement(
            f"{backend}-r0k0",
            "l",
            replace(CELL, backend=backend),
            0,
            0,
            "ok",
            "2030-01-01T00:00:00",
            traces=traces(1, 2),
        )
    )
    return store


def test_cells_of_two_backends_meet_by_workload_method_and_batch_size(tmp_path: Path) -> None:
    (cell,) = compare_runs(run(tmp_path / "a", "reference"), run(tmp_path / "b", "vllm"))
    assert (cell.cell, cell.verdict) == ("chat-ngram-g3-b1", "AGREE")


def test_what_was_not_compared_is_no_agreement(tmp_path: Path) -> None:
    silent = tuple(replace(trace, acceptance=None) for trace in traces(1, 2))
    assert compare_cells(CELL, silent, silent).verdict == "NOT_COMPARED"
    failed = (traces(1, 2)[0], replace(traces(1, 2)[1], error="HTTP 500"))
    cell = compare_cells(CELL, traces(1, 2), failed)
    assert (cell.verdict, cell.requests, cell.unanswered) == ("NOT_COMPARED", 1, 1)
    a, b = run(tmp_path / "a", "reference"), run(tmp_path / "b", "vllm")
    other = replace(CELL, batch_size=4)
    a.write(measurement("more", other, traces(1)))
    b.write(replace(measurement("more", other, ()), status="failed", error="died"))
    assert [(cell.cell, cell.verdict) for cell in compare_runs(a, b)] == [
        (CELL.id, "AGREE"),
        (other.id, "NOT_COMPARED"),
    ]


def test_another_rendering_of_the_prompt_is_a_difference() -> None:
    ours, theirs = traces(1), traces(1)
    theirs = (replace(theirs[0], prompt_token_ids=(0, *(ours[0].prompt_token_ids or (1,)))),)
    assert compare_cells(CELL, (replace(ours[0], prompt_token_ids=(1,)),), theirs).verdict == "DIFFER"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_tokens": 48}, "max_tokens is 21 in one and 48 in the other"),
        ({"temperature": 0.8}, "measure both with --temperature 0"),
        ({"dtype": "bfloat16"}, "measure both with --dtype float32"),
    ],
)
def test_runs_that_would_differ_on_correct_engines_are_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    both = {} if "max_tokens" in changes else changes
    with pytest.raises(SpecbenchError, match=reason):
        compare_runs(run(tmp_path / "a", "reference", **both), run(tmp_path / "b", "vllm", **changes))


def test_the_command_tells_by_its_exit_code(tmp_path: Path) -> None:
    a, b = run(tmp_path / "a", "reference"), run(tmp_path / "b", "vllm")
    argv = ["compare", str(a.path), str(b.path), "--across-backends"]
    shown = CliRunner().invoke(app, argv)
    assert shown.exit_code == 0
    assert "chat-ngram-g3-b1\t2 of 2\t2 of 2" in shown.stdout
    (cell,) = json.loads(CliRunner().invoke(app, [*argv, "--json"]).stdout)["cells"]
    assert (cell["verdict"], cell["same_ids"]) == ("AGREE", 2)
    b.write(measurement("vllm-r0k0", CELL, traces(1, 1)))
    shown = CliRunner().invoke(app, argv)
    assert shown.exit_code == 3
    assert "p001 differs first at draft 0: 2 of 3 accepted | 1 of 3 accepted" in shown.stdout
