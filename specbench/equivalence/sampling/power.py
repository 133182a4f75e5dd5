"""What a test would have found: from draws to the smallest bias, and back."""

from __future__ import annotations

import math
from functools import cache

from scipy import stats
from scipy.optimize import brentq

POWER = 0.99
LEAST_ENTROPY = 1.0
"""Nats. A context whose next token is all but certain shows no bias."""

MOST_ACCEPTANCE = 0.9
"""Where nearly every draft is kept, the tokens drawn after rejections are too few to be judged."""


@cache
def noncentrality(df: int, level: float, power: float = POWER) -> float:
    """The noncentrality λ at which a chi-square test of `df` degrees of freedom rejects with this power.

    Under the alternative a G statistic is close to noncentral chi-square with λ = n·Σ(f-p)²/p (Agresti, Categorical
    Data Analysis, section 6.6).
    """
    critical = stats.chi2.isf(level, df)

    def lacking(value: float) -> float:
        return float(stats.ncx2.sf(critical, df, value)) - power

    high = 1.0
    while lacking(high) < 0:
        high *= 2
    return float(brentq(lacking, 0.0, high))


def detectable_tv(n: int, df: int, level: float, power: float = POWER) -> float:
    """The total variation between the cells of a test over `n` draws from which on *every* bias is found.

    Rare tokens are one cell together: what moves among them alone is not in it.
    For a total variation x the least Σ(f-p)²/p is 4x²: all of the bias moves one half of the probability up and the
    other down. Over strata of unequal bias Σ n_s·4x_s² is at least 4n·x̄² (Jensen), so x is then their mean.
    """
    return min(1.0, math.sqrt(noncentrality(df, level, power) / (4 * n))) if n > 0 and df > 0 else 1.0


def detectable_leak(n: int, power: float = POWER) -> float:
    """The share of impossible tokens of which `n` draws would have shown one with this power: 1 - (1-power)^(1/n)."""
    return 1 - (1 - power) ** (1 / n) if n > 0 else 1.0


def draws_for_leak(leak: float, power: float = POWER) -> int:
    """How many draws show one impossible token: 90 for a leak of 5 %, 459 for 1 %."""
    return math.ceil(math.log(1 - power) / math.log(1 - leak))
