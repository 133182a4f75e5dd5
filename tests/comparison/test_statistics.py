"""A difference is found no more often by chance than said, and what would have been seen is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_gate import BREEZE, CALM
from scipy import stats

from specbench.comparison import wording
from specbench.comparison.result import Effect
from specbench.comparison.snapshot import CellKey
from specbench.comparison.statistics import Question, Sample, ask, judge

KEY = CellKey("chat", "ngram", 4, False, 1, None)
LOGS = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=8)


def sample(logs: Sequence[float], within: float | None = None) -> Sample:
    figures = {r: 1.5 * math.exp(x) for r, x in enumerate(logs)}
    return Sample(figures, {} if within is None else dict.fromkeys(figures, within))


def question(before: Sequence[float], after: Sequence[float], *, same_session: bool = False) -> Question:
    effect = Effect("B", KEY, KEY, "speedup", "not judged")
    return ask(effect, sample(before), sample(after), more_is_better=True, same_session=same_session)


def found(before: Sequence[float], after: Sequence[float], *, same_session: bool = False) -> Effect:
    (effect,) = judge([question(before, after, same_session=same_session)], 0.95)
    return effect


def test_sides_of_one_length_have_welchs_interval_and_p_value() -> None:
    after = np.asarray(BREEZE) + 0.02
    effect, welch = found(CALM, list(after)), stats.ttest_ind(after, CALM, equal_var=False)
    interval = welch.confidence_interval()
    assert (effect.low, effect.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert effect.p == pytest.approx(welch.pvalue)
    assert effect.outcome == "better"
    assert effect.replicates == (5, 5)


def test_replicates_of_one_session_are_pairs() -> None:
    after = [x + 0.02 + 0.0001 * i for i, x in enumerate(CALM)]
    effect, paired = found(CALM, after, same_session=True), stats.ttest_rel(after, CALM)
    assert effect.basis == "paired replicates"
    assert effect.p == pytest.approx(paired.pvalue)
    assert found(CALM, after).p > 100 * paired.pvalue  # type: ignore[operator]


@pytest.mark.parametrize(("before", "after", "spread"), [(5, 5, 1), (2, 20, 1), (2, 20, 1 / 3), (5, 2, 3), (3, 10, 1)])
def test_runs_without_a_change_are_told_apart_no_more_often_than_said(before: int, after: int, spread: float) -> None:
    """Of ten figures at once, whatever the numbers of launches. Welch's own degrees of freedom fail at 2 against 20."""
    rng, comparisons, wrong = np.random.default_rng(0), 250, 0
    for _ in range(comparisons):
        sides = zip(rng.normal(0, 0.02, (10, before)), rng.normal(0, 0.02 * spread, (10, after)), strict=True)
        effects = judge([question(list(a), list(b)) for a, b in sides], 0.95)
        wrong += any(e.outcome in ("better", "worse") for e in effects)
    assert stats.binomtest(wrong, comparisons, 0.07, alternative="greater").pvalue > 0.01


def test_a_change_as_large_as_would_have_been_seen_is_seen_nine_times_in_ten() -> None:
    noise, rng = 0.02, np.random.default_rng(1)
    factors, seen, trials = [], 0, 400
    for _ in range(trials):
        factors.append(found(list(rng.normal(0, noise, 5)), list(rng.normal(0, noise, 5))).detectable)
    typical = math.sqrt(np.mean([math.log(f) ** 2 for f in factors if f is not None]))
    for _ in range(trials):
        after = list(rng.normal(typical, noise, 5))
        seen += found(list(rng.normal(0, noise, 5)), after).outcome == "better"
    assert 0.84 < seen / trials < 0.97


def test_among_many_figures_a_larger_change_would_have_been_seen_only() -> None:
    pair = question(CALM, BREEZE)
    (alone,), among = judge([pair], 0.95), list(judge([pair] * 20, 0.95))
    assert alone.detectable is not None
    assert among[0].detectable is not None
    assert among[0].detectable > alone.detectable > 1


def test_what_does_not_vary_takes_no_part_of_the_level_and_has_no_p() -> None:
    after = [x + 0.02 for x in BREEZE]
    effects = list(judge([question([0.5] * 5, [0.5] * 5), question(CALM, after), question([0.5] * 3, [0.4] * 3)], 0.95))
    assert [e.outcome for e in effects] == ["same", "better", "worse"]
    assert effects[1].p_holm == effects[1].p
    assert effects[0].p is None
    assert effects[2].low == effects[2].high == pytest.approx(math.exp(-0.1))


def test_one_launch_on_each_side_has_an_interval_of_its_inside_and_no_verdict() -> None:
    effect = Effect("B", KEY, KEY, "speedup", "not judged")
    asked = ask(effect, sample([0.0], 0.03), sample([0.5], 0.04), more_is_better=True, same_session=False)
    (answer,) = judge([asked], 0.95)
    assert answer.outcome == "not judged"
    assert answer.basis == "within one launch"
    assert answer.low == pytest.approx(math.exp(0.5 - 1.96 * 0.05), rel=1e-4)
    assert "one launch on each side" in answer.text


def test_one_launch_against_several_has_a_change_and_no_interval() -> None:
    effect = found([0.0], CALM)
    assert effect.change == pytest.approx(math.exp(sum(CALM) / 5))
    assert (effect.low, effect.outcome) == (None, "not judged")
    assert "one launch on a side" in effect.text


def test_replicates_that_two_arms_of_a_run_do_not_share_are_no_pairs() -> None:
    """Both have two launches, and none of them together: "one launch on a side" would be false."""
    effect = Effect("B", KEY, KEY, "speedup", "not judged")
    sides = (Sample({0: 1.5, 1: 1.6}, {}), Sample({2: 1.5, 3: 1.6}, {}))
    asked = ask(effect, *sides, more_is_better=True, same_session=True)
    assert "fewer than two replicates have a figure of both arms" in asked.effect.text
    alone = ask(effect, sample([0.0]), sample(CALM), more_is_better=True, same_session=True)
    assert "one launch on a side" in alone.effect.text


def test_two_replicates_that_differ_much_among_many_figures_could_see_nothing() -> None:
    """A standard error of .6 with one degree of freedom, at the level of one figure of sixty: e to the thousands."""
    logs = [0.0, 1.2]
    effects = list(judge([question(logs, [0.1, 2.5], same_session=True) for _ in range(60)], 0.95))
    assert {e.outcome for e in effects} == {"none found"}
    assert {e.detectable for e in effects} == {None}
    assert {wording.finding(e) for e in effects} == {"none found"}


@given(st.lists(st.tuples(LOGS, LOGS), min_size=1, max_size=5), st.booleans())
def test_adjusted_p_values_rise_with_their_own_and_are_never_smaller(
    pairs: list[tuple[list[float], list[float]]], same_session: bool
) -> None:
    effects = list(judge([question(*pair, same_session=same_session) for pair in pairs], 0.95))
    ranked = sorted((e.p, e.p_holm) for e in effects if e.p is not None and e.p_holm is not None)
    assert all(p <= adjusted <= 1 for p, adjusted in ranked)
    assert [adjusted for _, adjusted in ranked] == sorted(adjusted for _, adjusted in ranked)


@given(LOGS, LOGS, st.booleans())
def test_swapping_the_sides_turns_a_change_round(before: list[float], after: list[float], same_session: bool) -> None:
    there, back = (found(*sides, same_session=same_session) for sides in ((before, after), (after, before)))
    if there.low is not None and there.change is not None and back.change is not None and back.high is not None:
        assert there.change * back.change == pytest.approx(1)
        assert there.low * back.high == pytest.approx(1)
    assert there.p_holm == pytest.approx(back.p_holm)
    assert {"better": "worse", "worse": "better"}.get(there.outcome, there.outcome) == back.outcome


@given(LOGS)
def test_a_figure_against_itself_is_the_same(logs: list[float]) -> None:
    assert found(logs, logs, same_session=True).outcome == "same"
    assert found(logs, logs).outcome in ("same", "none found")
