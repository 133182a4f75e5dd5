"""What a test says it would have found, it finds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specbench.equivalence.sampling.frequencies import one_sample
from specbench.equivalence.sampling.power import (
    detectable_leak,
    detectable_tv,
    draws_for_leak,
    noncentrality,
)
from specbench.equivalence.sampling.strata import Stratum


def draws_for(tv: float, df: int) -> int:
    """So many that `detectable_tv` says it would find this bias."""
    return next(n for n in range(1, 100_000) if detectable_tv(n, df, 1e-4) <= tv)


def test_draws_that_show_a_leak() -> None:
    assert draws_for_leak(0.05) == 90
    assert draws_for_leak(0.01) == 459
    assert detectable_leak(459) == pytest.approx(0.01, rel=1e-2)


@given(st.integers(1, 500), st.sampled_from([1e-2, 1e-3, 1e-4]))
def test_noncentrality_gives_the_power_asked_for(df: int, level: float) -> None:
    value = noncentrality(df, level)
    assert stats.ncx2.sf(stats.chi2.isf(level, df), df, value) == pytest.approx(0.99, abs=1e-6)


@given(st.integers(50, 10**5), st.integers(1, 300))
def test_more_draws_find_less_and_more_cells_need_more(n: int, df: int) -> None:
    assert detectable_tv(2 * n, df, 1e-4) <= detectable_tv(n, df, 1e-4) <= detectable_tv(n, df + 5, 1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_a_bias_of_the_stated_size_is_found_whatever_its_direction(seed: int) -> None:
    """The statement is a guarantee: also where the bias is spread as evenly as it can be, the hardest case (seed 0)."""
    rng = np.random.default_rng(seed)
    p = np.full(8, 1 / 8) if seed == 0 else rng.dirichlet(np.full(8, 4.0)).clip(0.02)
    p /= p.sum()
    direction = np.array([1, 1, 1, 1, -1, -1, -1, -1]) * p if seed == 0 else rng.standard_normal(8) * p
    direction -= p * direction.sum()
    n = draws_for(0.1, len(p) - 1)
    f = p + 0.1 * direction / (np.abs(direction).sum() / 2)
    assert f.min() >= 0
    found = [one_sample("g", [Stratum(c.astype(float), p)], 1e-4).p < 1e-4 for c in rng.multinomial(n, f, 1_000)]
    assert np.mean(found) > 0.975


def test_over_strata_of_unequal_bias_the_mean_counts() -> None:
    rng = np.random.default_rng(11)
    p, n = np.full(4, 0.25), draws_for(0.1, 6) // 2
    f = p + np.array([0.1, 0.1, -0.1, -0.1])  # TV 0.2 in one stratum, none in the other
    found = [
        one_sample("g", [Stratum(a.astype(float), p), Stratum(b.astype(float), p)], 1e-4).p < 1e-4
        for a, b in zip(rng.multinomial(n, f, 500), rng.multinomial(n, p, 500), strict=True)
    ]
    assert np.mean(found) > 0.98
