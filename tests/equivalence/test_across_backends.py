from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import request

from specbench.equivalence.across_backends import align, compare_cells, compare_runs
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestAcceptance
from specbench.speculation import Speculation
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore

GAMMA = 3
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
    cell = compare_cells("chat-ngram-g3-b1", traces(1, 2), traces(1, 2))
    assert (cell.verdict, cell.requests, cell.same_ids, cell.compared) == ("AGREE", 2, 2, 2)
    assert cell.length_a == cell.length_b


def test_the_first_step_that_differs_is_named() -> None:
    cell = compare_cells("chat-ngram-g3-b1", traces(1, 2), traces(1, 1))
    assert cell.verdict == "DIFFER"
    (difference,) = cell.differences
    assert (difference.prompt_id, difference.step, difference.a, difference.b) == ("p001", 0, (3, 2), (3, 1))


def test_other_ids_are_a_difference_and_their_steps_are_not_compared() -> None:
    other = (*traces(1), *traces(1, 1, token_ids=tuple(range(21)))[1:])
    cell = compare_cells("chat-ngram-g3-b1", traces(1, 1), other)
    assert (cell.verdict, cell.same_ids, cell.compared, cell.differences) == ("DIFFER", 1, 1, ())


def test_the_baseline_is_compared_by_its_ids() -> None:
    plain = tuple(request(i) for i in range(2))
    cell = compare_cells("chat-none-b1", plain, plain)
    assert (cell.verdict, cell.compared) == ("AGREE", 0)


def run(path: Path, backend: str, **changes: Any) -> RunStore:
    config = {"max_tokens": 21, "temperature": 0.0, "seed": 0, "prompts": None, "dtype": "float32"}
    manifest = {"target": {"digest": "t"}, "workloads": [{"sha256": "w"}], "drafters": {}, "config": config | changes}
    store = RunStore.create(path, manifest)
    cell = Cell(backend, "demo", "chat", Speculation("ngram", GAMMA), 1, 0.0)
    store.write(Measurement(f"{backend}-r0k0", "l", cell, 0, 0, "ok", "2030-01-01T00:00:00", traces=traces(1, 2)))
    return store


def test_cells_of_two_backends_meet_by_workload_method_and_batch_size(tmp_path: Path) -> None:
    (cell,) = compare_runs(run(tmp_path / "a", "reference"), run(tmp_path / "b", "vllm"))
    assert (cell.cell, cell.verdict) == ("chat-ngram-g3-b1", "AGREE")


def test_runs_that_asked_for_other_things_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="max_tokens is 21 in one and 48 in the other"):
        compare_runs(run(tmp_path / "a", "reference"), run(tmp_path / "b", "vllm", max_tokens=48))
