"""How many successive values of a series amount to one independent value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_Floats = npt.NDArray[np.float64]

_WINDOW = 5.0
"""Of Sokal's rule: lags are summed up to this many autocorrelation times. Fewer lags bias, more add noise."""


def integrated_autocorrelation_time(series: Sequence[_Floats]) -> float:
    """τ = 1 + 2 Σ ρ(k), in steps of the series: the mean of n values has the variance of n/τ independent ones.

    The sum ends at the smallest lag M ≥ 5 τ(M) (Sokal, 1997, "Monte Carlo methods in statistical mechanics", §3).
    At least 1: what anticorrelates would promise more than it holds.

    series: stretches of one process, each about its own mean; their autocovariances are pooled
    """
    longest = max(map(len, series), default=0)
    covariance = np.zeros(longest)
    for stretch in filter(len, series):
        deviation = np.asarray(stretch, dtype=float) - np.mean(stretch)
        covariance[: len(stretch)] += np.correlate(deviation, deviation, mode="full")[len(stretch) - 1 :]
    if longest < 2 or covariance[0] <= 0:
        return 1.0
    times = 2 * np.cumsum(covariance / covariance[0]) - 1  # τ(M), M = 0, 1, …
    enough = np.arange(longest) >= _WINDOW * times
    return max(1.0, float(times[np.argmax(enough)] if enough.any() else times.max()))
