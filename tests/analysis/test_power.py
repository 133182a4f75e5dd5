"""The planner's arithmetic: against tables, simulation and itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specbench.analysis.power import (
    false_regression_rate,
    pairs_for_equivalence,
    pairs_for_regression,
    pairs_needed,
    pairs_until,
    requests_for_acceptance,
)
from specbench.analysis.sequential import always_valid_t
from specbench.analysis.statistics import paired

PER_ARM = 0.02 * math.sqrt(2)
"""s_d of pairs whose arms have 2 % noise each."""


@pytest.mark.parametrize(
    ("spread", "pairs"),
    [(0.005, (5, 3, 3, 3)), (0.01, (13, 5, 4, 3)), (0.02, (44, 13, 7, 5)), (0.03, (97, 26, 13, 7))],
)
def test_pairs_to_see_1_2_3_and_5_percent_are_those_of_the_paired_t_test(spread: float, pairs: tuple[int, ...]) -> None:
    """Two-sided 5 %, power 90 %."""
    assert tuple(pairs_needed(effect, spread) for effect in (0.01, 0.02, 0.03, 0.05)) == pairs


@given(st.floats(0.3, 3))
def test_the_pairs_needed_have_the_power_and_one_fewer_have_not(ratio: float) -> None:
    """By scipy's noncentral t; both tails, of which the far one hardly counts."""
    n = pairs_needed(ratio, 1.0)
    assert n is not None

    def power(pairs: int) -> float:
        t, nc = stats.t.ppf(0.975, pairs - 1), ratio * math.sqrt(pairs)
        return float(stats.nct.sf(t, pairs - 1, nc))

    assert power(n) >= 0.9 - 1e-6
    assert n == 2 or power(n - 1) < 0.9 + 1e-6


def test_a_loss_of_5_percent_against_3_takes_16_pairs_at_2_percent_and_28_at_2_percent_per_arm() -> None:
    """With power .95, in plain percent; 15 and 26 in log ratios, which is what a gate decides on."""
    assert pairs_for_regression(-0.05, 0.03, 0.02, 0.95) == 16
    assert pairs_for_regression(-0.05, 0.03, PER_ARM, 0.95) == 28
    assert pairs_for_regression(math.log(0.95), -math.log(0.97), 0.02, 0.95) == 15
    assert pairs_for_regression(math.log(0.95), -math.log(0.97), PER_ARM, 0.95) == 26


def test_what_lies_within_the_margin_is_never_a_regression() -> None:
    assert pairs_for_regression(-0.02, 0.03, 0.01) is None
    assert pairs_needed(0.0, 0.01) is None


def test_false_alarms_of_200_comparisons_at_two_and_at_five_pairs() -> None:
    series = {pairs: 1 - (1 - false_regression_rate(0.03, PER_ARM, pairs)) ** 200 for pairs in (2, 5)}
    assert series[2] == pytest.approx(0.31, abs=0.01)
    assert series[5] == pytest.approx(0.009, abs=0.001)


def test_no_change_is_called_equivalent_as_often_as_planned() -> None:
    n = pairs_for_equivalence(0.03, 0.02)
    assert n is not None
    d = 0.02 * np.random.default_rng(6).standard_normal((4_000, n))
    found = [abs(e.mean) + e.margin() < 0.03 for e in map(paired, d.tolist())]
    assert 0.885 < np.mean(found) < 0.97
    assert pairs_for_equivalence(0.03, 0.02, 0.99) > n  # type: ignore[operator]


def test_until_ci_takes_as_many_pairs_as_the_always_valid_interval_says() -> None:
    n = pairs_until(0.03, 0.02)
    assert n is not None
    assert always_valid_t(n) * 0.02 / math.sqrt(n) <= 0.03 < always_valid_t(n - 1) * 0.02 / math.sqrt(n - 1)


def test_without_noise_two_pairs_are_enough() -> None:
    assert pairs_needed(0.01, 0.0) == 2
    assert pairs_for_equivalence(0.03, 0.0) == 2


@given(st.floats(0.01, 0.2), st.floats(0.001, 0.1), st.floats(0.1, 10))
def test_only_the_ratio_of_effect_to_noise_counts(effect: float, spread: float, scale: float) -> None:
    here, there = pairs_needed(effect, spread), pairs_needed(scale * effect, scale * spread)
    assert here is not None
    assert there is not None
    assert abs(here - there) <= 1


def test_requests_for_one_percent_of_acceptance_length_are_those_that_give_it() -> None:
    """Requests whose own acceptance varies, with a long tail of lengths: the error of Σ tokens / Σ steps at that n."""
    rng = np.random.default_rng(12)

    def requests(n: int) -> tuple[np.ndarray, np.ndarray]:
        steps = np.maximum(1, rng.lognormal(3, 1, n)).astype(int)
        return steps, np.rint(steps * np.clip(rng.normal(2.2, 0.4, n), 1, None)).astype(int)

    needed = requests_for_acceptance(*map(np.ndarray.tolist, requests(20_000)), 0.01)  # type: ignore[arg-type]
    assert needed is not None
    lengths = []
    for _ in range(300):
        steps, tokens = requests(needed)
        lengths.append(tokens.sum() / steps.sum())
    assert np.std(lengths) / np.mean(lengths) == pytest.approx(0.01, rel=0.2)


def test_one_request_says_nothing_of_how_requests_differ() -> None:
    assert requests_for_acceptance([10], [20], 0.01) is None
    assert requests_for_acceptance([0, 0], [1, 1], 0.01) is None
    assert requests_for_acceptance([10, 20], [20, 40], 0.01) == 1
