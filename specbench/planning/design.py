"""Which cell to measure next: the one that tells most about all others per unit of what it costs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from specbench.planning.cells import Point
from specbench.planning.fit import DISCREPANCY, Fit

Floats = NDArray[np.float64]


def information(
    found: Fit, candidates: Sequence[Point], of_interest: Sequence[Point], against: Sequence[Point] | None = None
) -> Floats:
    """By how much measuring each candidate would lower the variance of ln throughput, summed over the points of
    interest: Σ cov(y', y)² / (var(y) + σ²), to first order, whatever it will show. [candidates]

    against: as many points to compare those of interest with; it is then about ln speedup
    """
    here, there = found.sensitivity(candidates), found.sensitivity(of_interest)
    if against is not None:
        there = there - found.sensitivity(against)
    shared = there @ found.covariance @ here.T
    variance = np.einsum("ip,pq,iq->i", here, found.covariance, here) + found.noise**2 + DISCREPANCY**2
    return np.asarray((shared**2).sum(axis=0) / variance)
