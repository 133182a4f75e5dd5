"""The verdict on a task: worse, not worse or undecided, and the figures behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import request
from scipy.stats import binomtest

from specbench.errors import SpecbenchError
from specbench.replay.records import RequestTrace
from specbench.tasks.check import Outputs, check_task
from specbench.tasks.scoring import Task, task_by_rules
from specbench.tasks.text import lines_of
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.reference import Reference


def task(prompts: int) -> Task:
    """Prompts whose right answer is "yes"."""
    asked = tuple(Prompt(f"p{i:03}", prompt="Hi", reference=Reference(("yes",))) for i in range(prompts))
    return task_by_rules(Workload("task", Path("task.jsonl"), asked, "0"), None, run_code=False)


def answers(right: Sequence[bool], start: int = 0) -> list[RequestTrace]:
    """Texts that are right or wrong, with token ids that say which."""
    return [
        request(start + i, prompt_id=f"p{i:03}", text="yes" if ok else "no", token_ids=(int(ok), 2))
        for i, ok in enumerate(right)
    ]


def flipped(n: int, lost: int, gained: int, right: int) -> tuple[list[bool], list[bool]]:
    before = [i < right for i in range(n)]
    return before, [not ok if i < lost or right <= i < right + gained else ok for i, ok in enumerate(before)]


@pytest.mark.parametrize(
    ("n", "lost", "gained", "verdict"),
    [
        (100, 12, 1, "WORSE"),
        (400, 1, 1, "NOT WORSE"),
        (400, 1, 9, "NOT WORSE"),
        (100, 3, 2, "INCONCLUSIVE"),
        (100, 5, 0, "INCONCLUSIVE"),  # 2 · 0.5⁵ = 0.0625
        (100, 6, 0, "WORSE"),  # 2 · 0.5⁶ = 0.031
    ],
)
def test_the_verdict_rests_on_the_prompts_that_changed_sides(n: int, lost: int, gained: int, verdict: str) -> None:
    before, after = flipped(n, lost, gained, right=n // 2)
    check = check_task(task(n), {"arm": Outputs(answers(before), answers(after))})
    found = check.arms["arm"]
    assert (check.outcome, found.outcome) == (verdict, verdict)
    assert (found.paired.lost, found.paired.gained, found.paired.diverged) == (lost, gained, lost + gained)
    assert found.paired.p == pytest.approx(binomtest(lost, lost + gained).pvalue)
    assert found.paired.difference == pytest.approx((gained - lost) / n)


def test_the_same_outputs_have_the_same_score_however_few_they_are() -> None:
    check = check_task(task(3), {"arm": Outputs(answers([False] * 3), answers([False] * 3))})
    assert check.outcome == "NOT WORSE"
    assert "all outputs are the same, and so is every score" in "\n".join(lines_of(check))


def test_a_task_that_the_model_cannot_do_shows_no_drop() -> None:
    outputs = answers([False] * 99 + [True])
    changed = [request(0, prompt_id="p000", text="nein", token_ids=(7,)), *outputs[1:]]
    check = check_task(task(100), {"arm": Outputs(outputs, changed)}, max_drop=0.05)
    assert check.outcome == "INCONCLUSIVE"
    assert "plain decoding scores 1.0%: no drop can be seen" in "\n".join(lines_of(check))


def test_texts_that_differ_and_are_as_right_as_before_cost_nothing() -> None:
    before = answers([True] * 200)
    after = [request(i, prompt_id=f"p{i:03}", text="Yes.", token_ids=(5, 6)) for i in range(200)]
    found = check_task(task(200), {"arm": Outputs(before, after)}).arms["arm"]
    assert (found.outcome, found.paired.diverged, found.paired.lost, found.paired.p) == ("NOT WORSE", 200, 0, 1.0)


def test_several_samples_of_a_prompt_are_one_piece_of_evidence() -> None:
    """Ten samples of each of four prompts, all lost: a hundred times p = 2 · 0.5⁴ is still no significance."""
    before = [trace for sample in range(10) for trace in answers([True] * 4, 4 * sample)]
    after = [trace for sample in range(10) for trace in answers([False] * 4, 4 * sample)]
    found = check_task(task(4), {"arm": Outputs(before, after)}).arms["arm"]
    assert (found.paired.prompts, found.paired.outputs) == (4, 40)
    assert found.paired.p == pytest.approx(0.125)
    assert found.outcome == "INCONCLUSIVE"


def sampled(*outputs: Sequence[bool]) -> list[RequestTrace]:
    """Several samples of every prompt: the first of each, then the second of each, …"""
    return [trace for i, sample in enumerate(outputs) for trace in answers(sample, 100 * i)]


def test_outputs_that_come_more_often_than_before_are_not_the_same_outputs() -> None:
    """Three of four samples were right and none is now, by outputs that plain decoding has given too."""
    right, wrong = [True] * 12, [False] * 12
    before, after = sampled(right, right, right, wrong), sampled(wrong, wrong, wrong, wrong)
    found = check_task(task(12), {"arm": Outputs(before, after)}).arms["arm"]
    assert (found.outcome, found.paired.diverged, found.paired.lost) == ("WORSE", 12, 12)
    assert found.paired.second.score == 0
    assert found.paired.p == pytest.approx(2 * 0.5**12)


def test_repeats_of_the_same_outputs_are_the_same_outputs() -> None:
    before, after = answers([True, False]), sampled(*[[True, False]] * 3)
    found = check_task(task(2), {"arm": Outputs(before, after)}).arms["arm"]
    assert (found.outcome, found.paired.diverged, found.paired.outputs) == ("NOT WORSE", 0, 6)


def test_the_drop_that_would_have_been_found_is_one_beside_all_arms() -> None:
    before, after = flipped(200, 2, 2, right=150)
    alone = check_task(task(200), {"a": Outputs(answers(before), answers(after))}).arms["a"].paired.detectable
    outputs = {name: Outputs(answers(before), answers(after)) for name in "abcd"}
    beside = check_task(task(200), outputs).arms["a"].paired.detectable
    assert alone is not None
    assert beside is not None
    assert beside > alone


def test_an_interval_is_said_with_its_level() -> None:
    before, after = flipped(400, 1, 1, right=200)
    check = check_task(task(400), {"arm": Outputs(answers(before), answers(after))}, level=0.1, max_drop=0.05)
    said = "\n".join(lines_of(check))
    assert "is ruled out (90 %)" in said
    assert "90 % interval" in said
    assert "95 %" not in said


def test_every_arm_more_makes_chance_likelier() -> None:
    before, worse = flipped(100, 6, 0, right=50)
    arms = {"bad": Outputs(answers(before), answers(worse))}
    arms |= {f"same-{i}": Outputs(answers(before), answers(before)) for i in range(2)}
    found = check_task(task(100), arms).arms["bad"]
    assert found.adjusted == pytest.approx(3 * found.paired.p)
    assert found.outcome == "INCONCLUSIVE"


def test_the_baseline_beside_itself_cut_outputs_and_missing_pairs_are_told() -> None:
    before, after = flipped(50, 1, 0, right=25)
    given_back = [*answers(after)[:-2], request(48, prompt_id="p048", error="gone", token_ids=())]
    check = check_task(task(50), {"arm": Outputs(answers(before), given_back, again=answers(after))})
    text = "\n".join(lines_of(check))
    assert "1 of 48 prompts diverged; of these 1 scored less and 0 more" in text
    assert "plain decoding beside itself: 1 of 50 prompts diverged" in text
    assert "2 prompts have an output on one side alone" in text
    assert "48 of 48 outputs were cut by the token limit" in text  # `request` ends at its length


def test_nothing_to_pair_is_an_error() -> None:
    with pytest.raises(SpecbenchError, match="no prompt has an output both with and without"):
        check_task(task(2), {"arm": Outputs(answers([True]), [])})


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_turning_the_sides_turns_the_difference(sides: list[tuple[bool, bool]]) -> None:
    before, after = ([pair[side] for pair in sides] for side in (0, 1))
    there = check_task(task(len(sides)), {"arm": Outputs(answers(before), answers(after))}).arms["arm"].paired
    back = check_task(task(len(sides)), {"arm": Outputs(answers(after), answers(before))}).arms["arm"].paired
    assert (there.lost, there.gained, there.p) == (back.gained, back.lost, back.p)
    assert there.difference == pytest.approx(-back.difference)
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-6)
