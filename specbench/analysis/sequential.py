"""Intervals for someone who looks again and again: valid at every look, or at a few that are planned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.statistics import LEVEL, Interval

MIXING = 5.0
"""Variance of the mixture over effects μ/σ. Any value is valid; this one serves from 5 to 50 pairs."""


def always_valid_t(n: int, level: float = LEVEL) -> float:
    """Bound on |t| of n pairs that holds at all n ≥ 2 together with probability `level`, σ unknown.

    The mixture bound with its t-style correction: under effects μ/σ ~ N(0, g) and the right Haar prior on σ the Bayes
    factor against μ is √(1/r) ((1 + t²/ν) / (1 + t²/(νr)))^(n/2) with ν = n − 1 and r = 1 + ng (Gönen et al., 2005),
    a test martingale under every σ (Lai, 1976; Pérez-Ortiz et al., 2024), so Ville's inequality bounds it by 1/α for
    all time. With σ known it is |Σd| < √((nσ² + ρ) ln((nσ² + ρ)/(ρα²))), ρ = σ²/g (Robbins, 1970).
    Infinite where so few pairs cannot bound μ.
    """
    r = 1 + n * MIXING
    a = (r / (1 - level) ** 2) ** (1 / n)
    return math.sqrt((n - 1) * (a - 1) / (1 - a / r)) if n > 1 and a < r else math.inf


def always_valid_margin(log_ratios: Sequence[float]) -> float:
    """Half the width, on the log scale, of the interval below; infinite where it is unbounded."""
    d = np.asarray(log_ratios, dtype=float)
    bound = always_valid_t(len(d))
    return math.inf if math.isinf(bound) else bound * float(d.std(ddof=1)) / math.sqrt(len(d))


def always_valid_interval(log_ratios: Sequence[float]) -> Interval | None:
    """The interval of the geometric mean that holds however it was decided to stop adding replicates.

    None where the pairs are too few to bound anything. The price for looking is width: benchmarks/decision_rule.py
    measures it in pairs.
    """
    margin = always_valid_margin(log_ratios)
    if math.isinf(margin):
        return None
    mean = math.fsum(log_ratios) / len(log_ratios)
    return Interval(math.exp(mean - margin), math.exp(mean + margin), "always-valid")


@dataclass(frozen=True, slots=True)
class Looks:
    """A few looks at a growing number of pairs, over which the error probability is spent.

    sizes: pairs at each look, ascending; the last is the cap
    """

    sizes: tuple[int, ...]

    @classmethod
    def planned(cls, first: int, cap: int) -> Looks:
        """The cap, half of it, a quarter, …, and `first`: early looks find what is large, the last one decides."""
        sizes, size = {first, cap}, cap
        while (size := size // 2) >= 1.5 * first:
            sizes.add(size)
        return cls(tuple(sorted(sizes)))

    def level(self, pairs: int, level: float = LEVEL) -> float:
        """Level of the interval at the look of so many pairs.

        Each look may err with α times the share of the pairs that are new in it (linear alpha spending, Lan and
        DeMets, 1983); the looks' errors add up to α at most (Bonferroni), so t-intervals stay exact.
        """
        earlier = max((size for size in self.sizes if size < pairs), default=0)
        return 1 - (1 - level) * (pairs - earlier) / self.sizes[-1]

    def after(self, pairs: int) -> int | None:
        """Pairs of the next look; None after the last."""
        return min((size for size in self.sizes if size > pairs), default=None)
