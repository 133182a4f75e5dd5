"""Looking again and again: what still holds then, and what it costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtrit

from specbench.analysis.sequential import (
    MIXING,
    Looks,
    always_valid_interval,
    always_valid_margin,
    always_valid_t,
)
from specbench.analysis.statistics import replicate_interval

SERIES, LONGEST = 4_000, 40


def t_statistics(shift: float = 0.0) -> np.ndarray:
    """|t| of the first n of LONGEST pairs, n = 2 … [SERIES, LONGEST − 1]."""
    d = np.random.default_rng(21).standard_normal((SERIES, LONGEST)) + shift
    n = np.arange(1, LONGEST + 1)
    mean = d.cumsum(1) / n
    variance = ((d**2).cumsum(1) - n * mean**2)[:, 1:] / (n[1:] - 1)
    return np.abs(mean[:, 1:] - shift) / np.sqrt(variance / n[1:])


def test_an_always_valid_interval_holds_the_truth_at_every_look_at_once() -> None:
    bounds = np.array([always_valid_t(n) for n in range(2, LONGEST + 1)])
    assert np.mean(np.all(t_statistics() <= bounds, axis=1)) > 0.95


def test_an_ordinary_interval_does_not_survive_looking() -> None:
    """What sequential intervals are for: of 39 looks one is wrong in far more than 5 % of the series."""
    bounds = stdtrit(np.arange(1, LONGEST), 0.975)
    assert np.mean(np.all(t_statistics() <= bounds, axis=1)) < 0.75


def test_with_many_pairs_it_is_robbins_bound_for_a_known_variance() -> None:
    """|Σd| < √((nσ² + ρ) ln((nσ² + ρ) / (ρα²))) with ρ = σ²/g, here σ = 1."""
    n, rho, alpha = 5_000, 1 / MIXING, 0.05
    known = math.sqrt((n + rho) * math.log((n + rho) / (rho * alpha**2)))
    assert always_valid_t(n) * math.sqrt(n) == pytest.approx(known, rel=0.005)


def test_it_is_where_the_bayes_factor_reaches_twenty() -> None:
    """The bound is its own definition solved for t: √(1/r) ((1 + t²/ν) / (1 + t²/(νr)))^(n/2) = 1/α."""
    for n in (4, 7, 30):
        r, x = 1 + n * MIXING, always_valid_t(n) ** 2 / (n - 1)
        assert r**-0.5 * ((1 + x) / (1 + x / r)) ** (n / 2) == pytest.approx(20)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=30), st.floats(0.1, 10))
def test_it_scales_with_the_spread_turns_with_the_arms_and_holds_the_ordinary_one(d: list[float], by: float) -> None:
    interval, ordinary = always_valid_interval(d), replicate_interval(d)
    turned = always_valid_interval([-x for x in d])
    assert interval is not None
    assert turned is not None
    assert interval.low <= ordinary.low * (1 + 1e-9)
    assert interval.high >= ordinary.high * (1 - 1e-9)
    assert interval.low == pytest.approx(1 / turned.high)
    assert always_valid_margin([by * x for x in d]) == pytest.approx(by * always_valid_margin(d), abs=1e-12)
    assert interval.basis == "always-valid"


def test_it_narrows_with_every_pair_and_says_nothing_of_too_few() -> None:
    widths = [always_valid_t(n) / math.sqrt(n) for n in range(1, 200)]
    assert widths == sorted(widths, reverse=True)
    assert always_valid_interval([0.1, 0.2]) is None
    assert math.isinf(always_valid_margin([0.1]))


def test_looks_halve_down_from_the_cap() -> None:
    assert Looks.planned(5, 40).sizes == (5, 10, 20, 40)
    assert Looks.planned(5, 30).sizes == (5, 15, 30)
    assert Looks.planned(5, 5).sizes == (5,)
    assert [Looks.planned(5, 40).after(n) for n in (5, 20, 40)] == [10, 40, None]


@given(st.integers(2, 20), st.integers(0, 80))
def test_looks_spend_five_percent_and_no_more(first: int, more: int) -> None:
    looks = Looks.planned(first, first + more)
    assert sum(1 - looks.level(size) for size in looks.sizes) == pytest.approx(0.05)
    assert looks.sizes[0] == first
    assert looks.sizes[-1] == first + more


def test_a_level_spent_over_looks_survives_looking() -> None:
    looks = Looks.planned(5, 40)
    t = t_statistics()
    bounds = {n: stdtrit(n - 1, 0.5 + looks.level(n) / 2) for n in looks.sizes}
    held = np.all([t[:, n - 2] <= bound for n, bound in bounds.items()], axis=0)
    assert 0.95 < held.mean() < 0.97
