"""What is known of several figures at once, as draws: figures that share launches move together in them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from specbench.analysis.bootstrap import RESAMPLES
from specbench.analysis.statistics import LEVEL

Floats = npt.NDArray[np.float64]

_SEED = 20_251


class JointDraws:
    """Draws of means over replicates, by Student's t on each alone, and together as their replicates go together.

    A mean over R replicates is drawn as d̄ + Σ z_r (d_r − d̄) / √(R(R−1)) · √((R−1)/χ²), with one z_r for each replicate
    and one quantile of χ² for all: of each figure that is its t-interval, and of two figures that share replicates also
    their correlation (a multivariate t with the replicates' own covariance, singular or not).
    """

    def __init__(self, replicates: Iterable[int]) -> None:
        source = np.random.default_rng(_SEED)
        order = sorted(set(replicates))
        self._column = {replicate: i for i, replicate in enumerate(order)}
        self._z = source.standard_normal((RESAMPLES, len(order)))
        self._u = source.uniform(size=RESAMPLES)

    def of(self, by_replicate: Mapping[int, float]) -> Floats | None:
        """[RESAMPLES] draws of the mean; None for fewer than two replicates, which say nothing of their spread."""
        count = len(by_replicate)
        if count < 2:
            return None
        values = np.array(list(by_replicate.values()))
        z = self._z[:, [self._column[replicate] for replicate in by_replicate]]
        scale = np.sqrt((count - 1) / chi2.ppf(self._u, count - 1)) / math.sqrt(count * (count - 1))
        return np.asarray(values.mean() + (z @ (values - values.mean())) * scale)


@dataclass(frozen=True, slots=True)
class Range:
    """A figure with its 95 % interval. None: not bounded on that side, or not known."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: float | None, draws: Floats) -> Range:
        """The interval that holds the middle 95 % of the draws; it holds the figure too."""
        low, high = np.quantile(draws, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], method="nearest")
        ends = (float(low), float(high))
        if value is not None and math.isfinite(value):
            ends = min(ends[0], value), max(ends[1], value)
        return cls(*(end if end is not None and math.isfinite(end) else None for end in (value, *ends)))
