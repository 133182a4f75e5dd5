"""Tests and intervals of paired scores, against scipy, published tables and simulated truth."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from specbench.tasks.paired import detectable_drop, difference_interval, p_value, score_interval, tango

COUNTS = st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(1, 200)).filter(lambda c: c[0] + c[1] <= c[2])


def flips(lost: int, gained: int, n: int) -> list[float]:
    return [-1.0] * lost + [1.0] * gained + [0.0] * (n - lost - gained)


@given(COUNTS)
def test_of_right_and_wrong_it_is_mcnemars_exact_test(counts: tuple[int, int, int]) -> None:
    lost, gained, _ = counts
    expected = binomtest(lost, lost + gained).pvalue if lost + gained else 1.0
    assert p_value(flips(*counts)) == pytest.approx(expected)


def test_published_table_of_paired_counts() -> None:
    """Airway hyper-responsiveness before and after a transplantation: 1 and 7 of 21 pairs discordant (Fagerland,
    Lydersen and Laake, BMC Medical Research Methodology 13:91, 2013; intervals in Statistics in Medicine 33, 2014)."""
    assert p_value(flips(7, 1, 21)) == pytest.approx(0.0703, abs=5e-5)
    assert tango(7, 1, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_wilsons_interval_is_scipys() -> None:
    expected = binomtest(8, 21).proportion_ci(method="wilson")
    assert score_interval(8, 21) == pytest.approx((expected.low, expected.high))


@given(COUNTS)
def test_the_interval_holds_the_difference_and_turns_with_the_sides(counts: tuple[int, int, int]) -> None:
    lost, gained, n = counts
    low, high = tango(lost, gained, n)
    assert -1 <= low <= (gained - lost) / n <= high <= 1
    assert tango(gained, lost, n) == pytest.approx((-high, -low), abs=1e-6)


def test_without_a_discordant_pair_the_interval_is_the_scores_own() -> None:
    """z² / (n + z²): what Wilson's interval says of a rate after none in n."""
    assert tango(0, 0, 100)[1] == pytest.approx(score_interval(0, 100)[1], abs=1e-6)


def test_few_graded_changes_are_tested_by_all_their_signs() -> None:
    changes = (-0.5, -0.25, 0.1)
    sums = [
        abs(sum(s * c for s, c in zip(signs, changes, strict=True))) for signs in itertools.product((1, -1), repeat=3)
    ]
    expected = fmean(s >= abs(sum(changes)) - 1e-9 for s in sums)
    assert p_value([*changes, 0, 0, 0]) == pytest.approx(expected)


def test_graded_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        changed = draw.random(150) < 0.3
        differences = np.where(changed, draw.uniform(-0.8, 0.6, 150), 0.0)
        low, high = difference_interval(list(differences))
        held += low <= 0.3 * -0.1 <= high
    assert 180 <= held <= 199  # 95 %, and what chance may do in 200


def test_few_graded_changes_are_taken_for_whole_ones() -> None:
    differences = [-0.2, -0.1, 0.3] + [0.0] * 97
    assert difference_interval(differences) == (tango(2, 0, 100)[0], tango(0, 1, 100)[1])


@pytest.mark.parametrize("n", [12, 40])
def test_changes_that_are_all_alike_leave_room_for_others(n: int) -> None:
    """Among all prompts there may be others than the few that were asked."""
    low, high = difference_interval([-0.75] * n)
    assert -1 < low < -0.75 - 1 / n / 2
    assert -0.75 + 1 / n / 2 < high < 0
    assert difference_interval([0.75] * n) == pytest.approx((-high, -low), abs=1e-6)


@given(st.lists(st.floats(-1, 1).map(lambda d: round(d, 2)), min_size=1, max_size=40))
def test_a_graded_interval_holds_its_difference(differences: list[float]) -> None:
    low, high = difference_interval(differences)
    assert low - 1e-6 <= fmean(differences) <= high + 1e-6
    assert low < high


@pytest.mark.parametrize(("n", "noise"), [(200, 0.0), (200, 0.05), (1_319, 0.02)])
def test_the_drop_that_is_said_to_be_found_is_found_so_often(n: int, noise: float) -> None:
    drop = detectable_drop(n, noise, 0.5)
    assert drop is not None
    draw = np.random.default_rng(2)
    counts = draw.multinomial(n, (noise / 2 + drop, noise / 2, 1 - noise - drop), size=2_000)
    found = fmean(p_value(flips(lost, gained, n)) < 0.05 for lost, gained, _ in counts)
    assert found == pytest.approx(0.8, abs=0.04)


def test_a_score_that_is_too_low_or_prompts_that_are_too_few_show_no_drop() -> None:
    assert detectable_drop(100, 0.0, 0.0) is None
    assert detectable_drop(100, 0.0, 0.05) is None
    assert detectable_drop(5, 0.0, 1.0) is None  # 2 · 0.5⁵ is more than 0.05
