"""Did a score move between two answers to the same prompts? Exact tests, intervals, and what would have been found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.stats import binom, binomtest

from specbench.analysis.bootstrap import cluster_shifts

LEVEL = 0.05
POWER = 0.8
LEAST_CHANGED = 10
"""Fewer changed scores say too little of how large changes are for a bootstrap."""
LEAST_PROMPTS = 30
"""Fewer prompts are too few for a bootstrap: it knows no change but those that it has seen."""

_ALL_SIGNS = 12
_DRAWN_SIGNS = 20_000
_SEED = 20_251
_EDGE = 1e-9

Interval = tuple[float, float]
_Floats = npt.NDArray[np.float64]


def p_value(differences: Sequence[float]) -> float:
    """Two-sided, of no difference, by the signs that chance might have given to what changed.

    differences: one per prompt, arm − baseline. Where all changes are of one size that is McNemar's exact test: the
    binomial of the discordant pairs. Else the signs of the changes are permuted, all of them where they are few.
    """
    changed = np.array([d for d in differences if d], dtype=float)
    if not len(changed):
        return 1.0
    if np.all(np.abs(changed) == abs(changed[0])):
        return float(binomtest(int((changed < 0).sum()), len(changed)).pvalue)
    total = abs(changed.sum()) - 1e-9  # sums of the same terms in other orders differ by rounding
    as_great = np.abs(_signs(len(changed)) @ changed) >= total
    # Among drawn signs those that were seen count as one more draw, so that p is never 0 (Phipson and Smyth, 2010).
    return float(as_great.mean() if len(changed) <= _ALL_SIGNS else (as_great.sum() + 1) / (len(as_great) + 1))


def _signs(changed: int) -> _Floats:
    """[ways, changed] of ±1: all ways where they are few, else drawn."""
    if changed <= _ALL_SIGNS:
        return np.array(list(product((-1.0, 1.0), repeat=changed)))
    return np.random.default_rng(_SEED).choice((-1.0, 1.0), size=(_DRAWN_SIGNS, changed))


def score_interval(total: float, n: int, level: float = LEVEL) -> Interval:
    """Of a mean score (Wilson, 1927). total: right answers, or the sum of scores

    Scores between 0 and 1 vary less than right and wrong do (at most by m(1 − m)), so for them it is wide enough too.
    """
    z2 = NormalDist().inv_cdf(1 - level / 2) ** 2
    middle, half = total + z2 / 2, math.sqrt(z2 * (total * (n - total) / n + z2 / 4))
    return max(0.0, (middle - half) / (n + z2)), min(1.0, (middle + half) / (n + z2))


def difference_interval(differences: Sequence[float], level: float = LEVEL) -> Interval:
    """Of the mean difference over prompts.

    Scores of 0 and 1: Tango's (1998). Others: where fewer than LEAST_CHANGED changed, as if each had changed by the
    whole, since a mean is no lower than minus the share that fell; of few prompts, or where all changed alike, Tango's
    with the sums of what was lost and gained in the place of counts, which is wide enough, since smaller changes vary
    less than whole ones of the same mean; else bootstrap over prompts.
    """
    d = np.array(differences, dtype=float)
    n, fell, rose = len(d), int((d < 0).sum()), int((d > 0).sum())
    if np.isin(d, (-1, 0, 1)).all():
        return tango(fell, rose, n, level)
    if fell + rose < LEAST_CHANGED:
        return tango(fell, 0, n, level)[0], tango(0, rose, n, level)[1]
    if n < LEAST_PROMPTS or np.ptp(d) == 0:
        return tango(float(-d[d < 0].sum()), float(d[d > 0].sum()), n, level)
    shifts = cluster_shifts(d[:, None], lambda sums: sums[:, 0] / n)
    low, high = np.quantile(shifts, (level / 2, 1 - level / 2))
    return float(d.mean() + low), float(d.mean() + high)


def tango(lost: float, gained: float, n: int, level: float = LEVEL) -> Interval:
    """Score interval of a difference of paired proportions, gained/n − lost/n (Tango, Statistics in Medicine, 1998).

    lost, gained: the discordant pairs of n, or the sums of graded changes. It holds for few of them, and says something
    where there is none.
    """
    z = NormalDist().inv_cdf(1 - level / 2)
    difference = (gained - lost) / n

    def excess(delta: float, side: int) -> float:
        """How far the score statistic of `delta` is beyond z."""
        return side * (gained - lost - n * delta) - z * _spread(lost, gained, n, delta)

    # At the difference itself nothing is in excess, and where no pair is discordant nothing varies there either.
    low = -1.0 if difference == -1 else brentq(excess, _EDGE - 1, difference - _EDGE, args=(1,))
    high = 1.0 if difference == 1 else brentq(excess, difference + _EDGE, 1 - _EDGE, args=(-1,))
    return float(low), float(high)


def _spread(lost: float, gained: float, n: int, delta: float) -> float:
    """Standard deviation of gained − lost if the difference is `delta`, at the likeliest rate of losses."""
    b = lost + gained + delta * (gained - lost - 2 * n)
    rate = (b + math.sqrt(max(0.0, b * b + 8 * n * lost * delta * (1 - delta)))) / (4 * n)
    return math.sqrt(max(0.0, n * (2 * rate + delta * (1 - delta))))


def detectable_drop(n: int, noise: float, most: float, level: float = LEVEL, power: float = POWER) -> float | None:
    """Least drop of the score that McNemar's exact test finds with this power; None where that is more than `most`.

    noise: share of prompts that change sides anyway, half of them each way · most: the baseline's score, which is all
    that can be lost
    """
    if most <= 0 or _power(n, noise, most, level) < power:
        return None
    return float(brentq(lambda drop: _power(n, noise, drop, level) - power, 0, most, xtol=1e-6))


def _power(n: int, noise: float, drop: float, level: float) -> float:
    """Exact, over the numbers of discordant pairs and of losses among them."""
    rate = min(1.0, noise + drop)
    if rate == 0:
        return 0.0
    pairs = np.arange(int(binom.ppf(1e-12, n, rate)), int(binom.isf(1e-12, n, rate)) + 1)
    needed = binom.isf(level / 2, pairs, 0.5) + 1
    found = binom.sf(needed - 1, pairs, (noise / 2 + drop) / (noise + drop))
    return float(np.sum(binom.pmf(pairs, n, rate) * found))
