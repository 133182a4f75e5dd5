"""Resampling: correlated seconds and clustered requests must not pass for independent ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from specbench.analysis.bootstrap import LEAST_BLOCKS, cluster_shifts, log_mean_error
from specbench.analysis.time_blocks import block_interval


def throughput_series(tau: float, runs: int, seconds: int = 600, seed: int = 9) -> np.ndarray:
    """Tokens per second [runs, seconds] around 100 ± 15, AR(1) with integrated autocorrelation time `tau`."""
    phi, rng = (tau - 1) / (tau + 1), np.random.default_rng(seed)
    noise = rng.standard_normal((runs, seconds + 100)) * math.sqrt(1 - phi**2)
    return 100 + 15 * lfilter([1], [1, -phi], noise, axis=1)[:, 100:]


@pytest.mark.parametrize("tau", [3.4, 9.4])
def test_block_intervals_hold_the_truth_where_naive_ones_do_not(tau: float) -> None:
    """Engines' 1-second series have autocorrelation times of 3.4 to 9.4: naive errors are √τ times too small."""
    runs, truth, seconds = 250, 1.0, int(150 * tau)
    spec, base = throughput_series(tau, runs, seconds, 9), throughput_series(tau, runs, seconds, 10)
    blocks = naive = 0
    for s, b in zip(spec, base, strict=True):
        centre = math.log(s.mean() / b.mean())
        interval = block_interval([s], [b], centre)
        assert interval is not None
        assert interval.basis == "within one launch, by time block"
        blocks += interval.low <= truth <= interval.high
        error = math.hypot(*(x.std(ddof=1) / x.mean() / math.sqrt(seconds) for x in (s, b)))
        naive += abs(centre) <= 1.96 * error
    assert blocks / runs > 0.9
    assert naive / runs < 0.8


def test_the_error_is_that_of_the_mean_over_many_series() -> None:
    series = throughput_series(5.0, 400)
    found = [log_mean_error([s]) for s in series[:100]]
    errors = [error for error, _ in (f for f in found if f is not None)]
    assert np.mean(errors) == pytest.approx(np.log(series.mean(axis=1)).std(), rel=0.15)


def test_repeats_of_a_launch_are_stretches_that_blocks_do_not_bridge() -> None:
    """A level that changes between repeats is no autocorrelation within them."""
    low, high = throughput_series(3.4, 2)
    together = log_mean_error([low, high + 50])
    assert together is not None
    error, blocks = together
    assert blocks >= 2 * LEAST_BLOCKS
    assert error > 0


def test_a_window_of_few_blocks_says_nothing() -> None:
    (series,) = throughput_series(3.4, 1)
    assert log_mean_error([series[:50]]) is None
    assert block_interval([series], [series[:50]], 0.0) is None
    assert log_mean_error([]) is None


def test_a_bootstrap_by_cluster_has_the_spread_of_the_clusters() -> None:
    """Of Σ y over clusters the standard error is √n · s, which the draws must reproduce."""
    rows = np.random.default_rng(4).normal(10, 2, (80, 1))
    shifts = cluster_shifts(rows, lambda sums: sums[:, 0])
    assert shifts.std() == pytest.approx(math.sqrt(80) * rows.std(), rel=0.06)
    assert shifts.mean() == pytest.approx(0, abs=2)


def test_draws_without_a_value_are_left_out() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        shifts = cluster_shifts(rows, lambda sums: np.log(sums[:, 0] / sums[:, 1]))
    assert len(shifts) > 0
    assert np.all(np.isfinite(shifts))
