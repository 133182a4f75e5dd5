"""Resampling of what is not independent: clusters of requests, and blocks of a series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from specbench.analysis.autocorrelation import integrated_autocorrelation_time

_Floats = npt.NDArray[np.float64]

RESAMPLES = 2_000
BLOCK_TIMES = 3.0
"""Length of a block in autocorrelation times: shorter ones cut the correlation that they are there to keep."""
LEAST_BLOCKS = 10
"""Fewer say too little of how blocks differ."""
_SEED = 20_250


def cluster_shifts(rows: _Floats, statistic: Callable[[_Floats], _Floats]) -> _Floats:
    """How far a statistic of column sums moves when whole clusters are drawn with replacement.

    rows:      [clusters, k], one row per cluster (all requests of a prompt, say)
    statistic: of sums [n, k] -> [n]; NaN or infinite where a draw has no value, and then left out
    Returns [up to RESAMPLES].
    """
    clusters = len(rows)
    # [resamples, clusters] how often each cluster was drawn
    draws = np.random.default_rng(_SEED).multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES)
    drawn = statistic(draws @ rows)
    return np.asarray(drawn[np.isfinite(drawn)] - statistic(rows.sum(axis=0, keepdims=True)))


def log_mean_error(series: Sequence[_Floats]) -> tuple[float, int] | None:
    """Standard error of the log of a series' mean by the moving-block bootstrap (Künsch, 1989), and its blocks.

    series: stretches of one process, at equal steps; blocks do not reach over their ends
    Blocks are three integrated autocorrelation times long. None where that makes fewer than `LEAST_BLOCKS`.
    """
    time = integrated_autocorrelation_time(series)
    length = math.ceil(BLOCK_TIMES * time)
    stretches = [s for s in series if len(s) >= length]
    blocks = sum(map(len, stretches)) // length
    if blocks < LEAST_BLOCKS:
        return None
    means = np.concatenate([np.convolve(s, np.full(length, 1 / length), mode="valid") for s in stretches])
    drawn = np.random.default_rng(_SEED).choice(means, size=(RESAMPLES, blocks)).mean(axis=1)
    if not np.all(drawn > 0):
        return None
    # Blocks drawn with replacement vary by (n−1)/n of what independent ones do. And ends of blocks cut correlation
    # that goes on: of one that decays exponentially, (τ² − 1)/(2τ · length) of the variance (Künsch's bias of order
    # 1/length).
    cut = (time**2 - 1) / (2 * time * length)
    return float(np.log(drawn).std()) * math.sqrt(blocks / (blocks - 1) / (1 - cut)), blocks
