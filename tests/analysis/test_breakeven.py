"""Break-even, against crossings and roots that are known."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.breakeven import (
    SpeedupPoint,
    batch_crossing,
    break_even_alpha,
    expected_length,
    phase_step_cost,
    tpot_step_cost,
)


def sharp(speedups: dict[int, float]) -> dict[int, SpeedupPoint]:
    """Speedups whose intervals are as good as points."""
    return {size: SpeedupPoint(s, s * 0.999, s * 1.001) for size, s in speedups.items()}


@given(st.floats(1.5, 60), st.floats(0.1, 1.5))
def test_a_power_law_crosses_where_it_should(crossing: float, exponent: float) -> None:
    """ln S linear in ln B is interpolated exactly."""
    found = batch_crossing(sharp({b: (crossing / b) ** exponent for b in (1, 2, 4, 8, 16, 32, 64)}))
    assert found is not None
    assert found.batch_size == pytest.approx(crossing)
    assert found.gains == "below"


def test_a_gain_that_only_begins_at_some_batch_size_is_told_apart() -> None:
    found = batch_crossing(sharp({1: 0.8, 4: 1.25}))
    assert found is not None
    assert (found.gains, found.batch_size) == ("above", pytest.approx(2.0))


@pytest.mark.parametrize(
    ("speedups", "gains", "words"),
    [
        ({1: 1.5, 8: 1.2}, "everywhere", "above the largest measured batch size (8)"),
        ({2: 0.9, 8: 0.7}, "nowhere", "below the smallest (2)"),
        ({4: 1.1}, "everywhere", "above the largest measured batch size (4)"),
    ],
)
def test_without_a_crossing_the_side_is_named(speedups: dict[int, float], gains: str, words: str) -> None:
    found = batch_crossing(sharp(speedups))
    assert found is not None
    assert (found.batch_size, found.gains) == (None, gains)
    assert words in found.text


def test_a_crossing_has_the_interval_of_the_speedups_around_it() -> None:
    found = batch_crossing({1: SpeedupPoint(2.0, 1.8, 2.2), 4: SpeedupPoint(0.5, 0.4, 0.6)})
    assert found is not None
    assert (found.resolved, found.batch_size) == (True, pytest.approx(2.0))
    assert found.batch_size_low == pytest.approx(4 ** (math.log(1.8) / math.log(1.8 / 0.4)))
    assert found.batch_size_high == pytest.approx(4 ** (math.log(2.2) / math.log(2.2 / 0.6)))
    assert found.text == "gains up to a batch size of about 2.0 (95% interval 1.7-2.3)"


@pytest.mark.parametrize(
    ("speedups", "sizes"),
    [
        ({1: SpeedupPoint(1.05, 0.9, 1.2), 4: SpeedupPoint(0.8, 0.7, 0.9)}, "1 contains 1"),
        ({1: SpeedupPoint(1.2, 1.1, 1.3), 4: SpeedupPoint(0.9, 0.7, 1.1)}, "4 contains 1"),
        (
            {1: SpeedupPoint(1.2), 4: SpeedupPoint(0.9, 0.7, 1.1)},
            "4 contains 1, the interval at batch size 1 is not known",
        ),
        ({1: SpeedupPoint(1.2, 1.1, 1.3), 4: SpeedupPoint(1.1, 0.9, 1.3)}, "4 contains 1"),
        ({1: SpeedupPoint(0.95, 0.9, 1.02), 4: SpeedupPoint(0.8, 0.7, 0.9)}, "1 contains 1"),
    ],
)
def test_next_to_an_interval_that_contains_1_a_crossing_is_not_resolved(
    speedups: dict[int, SpeedupPoint], sizes: str
) -> None:
    found = batch_crossing(speedups)
    assert found is not None
    assert (found.resolved, found.batch_size_low, found.batch_size_high) == (False, None, None)
    assert f"not resolved: the interval at batch size {sizes}" in found.text


def test_no_speedup_is_no_crossing() -> None:
    assert batch_crossing({}) is None


@given(st.floats(0, 0.999), st.integers(1, 12))
def test_expected_length_is_the_closed_form(alpha: float, gamma: int) -> None:
    assert expected_length(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha))


@given(st.floats(0.001, 0.999), st.integers(1, 12))
def test_break_even_alpha_undoes_expected_length(alpha: float, gamma: int) -> None:
    found = break_even_alpha(expected_length(alpha, gamma), gamma)
    assert found is not None
    assert found == pytest.approx(alpha, abs=1e-6)


def test_a_free_step_needs_no_acceptance_and_a_dear_one_is_never_repaid() -> None:
    assert break_even_alpha(0.97, 4) == 0.0
    assert break_even_alpha(5.0, 4) == pytest.approx(1.0)
    assert break_even_alpha(5.01, 4) is None


def test_step_cost_from_phases_is_per_step_in_plain_steps() -> None:
    cost = phase_step_cost(
        {"prefill": 9.0, "draft": 1.0, "verify": 5.5, "accept": 0.5}, 100, {"prefill": 9.0, "verify": 10.0}, 250
    )
    assert cost is not None
    assert (cost.draft, cost.verify, cost.ratio) == (
        pytest.approx(0.25),
        pytest.approx(1.5),
        pytest.approx(1.75),
    )
    assert cost.basis == "phases"
    assert phase_step_cost({}, 100, {}, 250) is None


def test_step_cost_from_streams_is_tpot_times_acceptance_length() -> None:
    cost = tpot_step_cost(0.010, 2.5, 0.020)
    assert (cost.ratio, cost.draft, cost.basis) == (pytest.approx(1.25), None, "tpot")
    alpha = break_even_alpha(cost.ratio, 3)
    assert alpha is not None
    assert math.fsum(alpha**k for k in range(4)) == pytest.approx(1.25)
