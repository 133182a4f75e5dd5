"""Intervals against formulas, and against how often they hold the truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specbench.analysis.statistics import Work, paired, prompt_interval, replicate_interval, unpaired, work_log_ratio

WORK = st.builds(Work, st.floats(1, 500), st.floats(0.01, 100))
LOGS = st.lists(st.floats(-1, 1), min_size=2, max_size=10)


def test_two_replicates_give_the_t_interval_with_one_degree_of_freedom() -> None:
    interval = replicate_interval([math.log(1.2), math.log(1.3)])
    centre, margin = (math.log(1.2) + math.log(1.3)) / 2, 12.7062 * math.log(1.3 / 1.2) / 2
    assert interval.low == pytest.approx(math.exp(centre - margin), rel=1e-4)
    assert interval.high == pytest.approx(math.exp(centre + margin), rel=1e-4)
    assert interval.basis == "replicates"


@given(LOGS)
def test_the_interval_holds_the_geometric_mean(log_ratios: list[float]) -> None:
    interval = replicate_interval(log_ratios)
    assert interval.low <= math.exp(np.mean(log_ratios)) * (1 + 1e-9)
    assert interval.high >= math.exp(np.mean(log_ratios)) * (1 - 1e-9)


@given(LOGS)
def test_exchanging_the_arms_turns_the_interval_upside_down(log_ratios: list[float]) -> None:
    one, other = replicate_interval(log_ratios), replicate_interval([-d for d in log_ratios])
    assert one.low == pytest.approx(1 / other.high)
    assert one.high == pytest.approx(1 / other.low)


@given(LOGS, st.floats(-3, 3))
def test_a_faster_machine_moves_the_interval_and_leaves_its_width(log_ratios: list[float], shift: float) -> None:
    here, there = replicate_interval(log_ratios), replicate_interval([d + shift for d in log_ratios])
    assert there.low == pytest.approx(here.low * math.exp(shift), rel=1e-6)
    assert there.high == pytest.approx(here.high * math.exp(shift), rel=1e-6)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.integers(2, 5))
def test_the_same_replicates_over_again_narrow_it(log_ratios: list[float], times: int) -> None:
    assert paired(log_ratios * times).margin() <= paired(log_ratios).margin() + 1e-12


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=10, unique=True), st.floats(-1, 1))
def test_p_values_are_those_of_the_one_sample_t_test(log_ratios: list[float], bound: float) -> None:
    if np.std(log_ratios) < 1e-6:
        return
    estimate = paired(log_ratios)
    for found, side in ((estimate.p_below(bound), "less"), (estimate.p_above(bound), "greater")):
        expected = stats.ttest_1samp(log_ratios, bound, alternative=side).pvalue
        assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_two_stored_runs_are_compared_as_welch_does() -> None:
    before, after = [0.0, 0.02, -0.01, 0.015], [0.05, 0.11, 0.02, 0.09, 0.06]
    expected = stats.ttest_ind(after, before, equal_var=False)
    estimate = unpaired(before, after)
    assert 2 * min(estimate.p_below(0), estimate.p_above(0)) == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert estimate.mean - estimate.margin() == pytest.approx(interval.low)
    assert estimate.mean + estimate.margin() == pytest.approx(interval.high)


def test_figures_that_never_vary_leave_no_doubt() -> None:
    same = paired([0.125, 0.125])
    assert (same.p_above(0.0), same.p_below(0.0), same.p_above(0.125)) == (0.0, 1.0, 0.5)
    assert unpaired([0.0, 0.0], [0.125, 0.125]).p_above(0.0625) == 0


@pytest.mark.parametrize("replicates", [2, 3, 5])
def test_19_of_20_replicate_intervals_hold_the_truth(replicates: int) -> None:
    rng, truth, runs = np.random.default_rng(7), 1.25, 2_000
    drawn = math.log(truth) + 0.03 * rng.standard_normal((runs, replicates))
    held = sum((i := replicate_interval(list(d))).low <= truth <= i.high for d in drawn)
    assert 0.935 < held / runs < 0.965


def test_19_of_20_prompt_intervals_hold_the_truth() -> None:
    """40 prompts of very different lengths whose own speedups scatter around 1.3."""
    rng, truth, held, runs = np.random.default_rng(11), 1.3, 0, 300
    for _ in range(runs):
        tokens = rng.lognormal(4, 0.7, 40)
        base = {str(i): Work(t, t * 0.02) for i, t in enumerate(tokens)}
        own = truth * np.exp(0.2 * rng.standard_normal(40) - 0.2**2 / 2)
        spec = {str(i): Work(t, t * 0.02 / s) for i, (t, s) in enumerate(zip(tokens, own, strict=True))}
        # Time weights by 1/speedup, so the truth of the pooled ratio is the harmonic mean of the own speedups.
        pooled = truth * math.exp(-(0.2**2))
        centre = work_log_ratio(spec, base)
        assert centre is not None
        interval = prompt_interval(spec, base, centre)
        assert interval is not None
        held += interval.low <= pooled <= interval.high
    assert 0.89 < held / runs < 0.98


@given(
    st.dictionaries(st.text(min_size=1, max_size=3), st.tuples(WORK, WORK), min_size=2, max_size=8), st.floats(-1, 1)
)
def test_a_prompt_interval_holds_its_centre_and_comes_out_the_same_twice(
    prompts: dict[str, tuple[Work, Work]], centre: float
) -> None:
    spec, base = {p: a for p, (a, _) in prompts.items()}, {p: b for p, (_, b) in prompts.items()}
    interval = prompt_interval(spec, base, centre)
    assert interval is not None
    assert interval.low <= math.exp(centre) * (1 + 1e-9)
    assert interval.high >= math.exp(centre) * (1 - 1e-9)
    assert interval == prompt_interval(spec, base, centre)
    assert interval.basis == "within one launch, by prompt"


def test_prompts_that_all_gain_the_same_leave_no_doubt() -> None:
    base = {str(i): Work(10 + i, 1 + i) for i in range(9)}
    spec = {p: Work(w.tokens, w.seconds / 1.5) for p, w in base.items()}
    interval = prompt_interval(spec, base, math.log(1.5))
    assert interval is not None
    assert (interval.low, interval.high) == (pytest.approx(1.5), pytest.approx(1.5))


def test_a_prompt_cycled_ten_times_is_one_observation_not_ten() -> None:
    """Requests are clusters: asking the same prompt again tells nothing of other prompts."""
    rng = np.random.default_rng(3)
    own = {str(i): 1.3 * math.exp(0.2 * g) for i, g in enumerate(rng.standard_normal(12))}
    once = ({p: Work(50, 1 / s) for p, s in own.items()}, dict.fromkeys(own, Work(50, 1)))
    often = ({p: Work(500, 10 / s) for p, s in own.items()}, dict.fromkeys(own, Work(500, 10)))
    narrow, wide = prompt_interval(*often, 0.0), prompt_interval(*once, 0.0)
    assert narrow is not None
    assert wide is not None
    assert (narrow.low, narrow.high) == (pytest.approx(wide.low), pytest.approx(wide.high))


def test_fewer_than_two_common_prompts_give_no_interval() -> None:
    assert prompt_interval({"a": Work(1, 1), "b": Work(1, 1)}, {"a": Work(1, 1)}, 0.0) is None
    assert work_log_ratio({"a": Work(1, 1)}, {"b": Work(1, 1)}) is None
