"""Autocorrelation time against processes of which it is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from specbench.analysis.autocorrelation import integrated_autocorrelation_time


def ar1(phi: float, shape: tuple[int, int], seed: int = 5) -> np.ndarray:
    """Stationary AR(1) series, variance 1."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(shape) * np.sqrt(1 - phi**2)
    noise[:, 0] = rng.standard_normal(shape[0])
    return lfilter([1], [1, -phi], noise, axis=1)


@pytest.mark.parametrize("tau", [1.0, 3.4, 9.4])
def test_it_is_that_of_an_autoregressive_process(tau: float) -> None:
    """(1 + φ) / (1 − φ) for AR(1)."""
    (series,) = ar1((tau - 1) / (tau + 1), (1, 20_000))
    assert integrated_autocorrelation_time([series]) == pytest.approx(tau, rel=0.12)


def test_it_is_by_how_much_naive_errors_are_too_small() -> None:
    """The variance of a mean over many series is τ times what independent values would give."""
    series = ar1(0.6, (4_000, 400))
    estimated = np.mean([integrated_autocorrelation_time([s]) for s in series[:200]])
    assert series.mean(axis=1).var() * 400 == pytest.approx(estimated, rel=0.15)


def test_stretches_are_pooled_each_about_its_own_mean() -> None:
    stretches = ar1(0.6, (8, 2_500))
    apart = integrated_autocorrelation_time(list(stretches + np.arange(8)[:, None]))
    assert apart == pytest.approx(4.0, rel=0.12)


@given(st.lists(st.floats(-1e3, 1e3), max_size=30), st.floats(0.01, 100))
def test_it_is_at_least_one_and_knows_no_unit(values: list[float], scale: float) -> None:
    series = np.array(values)
    tau = integrated_autocorrelation_time([series] if len(series) else [])
    assert 1 <= tau <= max(1, len(values))
    if len(values) and np.ptp(series) > 1e-3:
        assert integrated_autocorrelation_time([series * scale]) == pytest.approx(tau, rel=1e-4)
