"""How much must be measured to see what one wants to see."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from scipy.integrate import quad
from scipy.special import nctdtr, nctdtrinc, ndtr, stdtrit
from scipy.stats import chi

from specbench.analysis.sequential import always_valid_t
from specbench.analysis.statistics import LEVEL, Estimate

POWER = 0.9
MOST_PAIRS = 100_000
"""What would take more is answered by None: nobody measures that."""


def pairs_needed(effect: float, spread: float, power: float = POWER, level: float = LEVEL) -> int | None:
    """Pairs in which the interval leaves 1 out with probability `power` (paired t-test, noncentral t).

    effect: true log ratio
    spread: s_d, the standard deviation of a pair's log ratio; √2 times that of one measurement
    """
    return _fewest(lambda n: _below(-abs(effect), spread, n, level), power)


def pairs_for_regression(
    change: float, margin: float, spread: float, power: float = POWER, level: float = LEVEL
) -> int | None:
    """Pairs in which a true change is judged a regression: the interval wholly below −margin. All on the log scale.

    None where no number of pairs shows it, because the change is within the margin.
    """
    return _fewest(lambda n: _below(change + margin, spread, n, level), power) if change < -margin else None


def pairs_for_equivalence(margin: float, spread: float, power: float = POWER, level: float = LEVEL) -> int | None:
    """Pairs in which no change at all is judged equivalent: the interval wholly within ±margin (log scale)."""
    return _fewest(lambda n: _within(margin, spread, n, level), power)


def pairs_until(half_width: float, spread: float, level: float = LEVEL) -> int | None:
    """Pairs after which an always-valid interval is about ± `half_width`, if s_d stays at `spread`. Log scale."""
    return _fewest(lambda n: float(always_valid_t(n, level) * spread / math.sqrt(n) <= half_width), 1.0)


def false_regression_rate(margin: float, spread: float, pairs: int, level: float = LEVEL) -> float:
    """Probability that one comparison without any change is judged a regression. Log scale."""
    return _below(margin, spread, pairs, level)


def detectable(estimate: Estimate, level: float = LEVEL, power: float = POWER) -> float:
    """The true log ratio whose interval, with such an error, leaves 1 out with probability `power` (noncentral t)."""
    critical = float(stdtrit(estimate.dof, 0.5 + level / 2))
    return float(nctdtrinc(estimate.dof, 1 - power, critical)) * estimate.error


def requests_for_acceptance(steps: Sequence[int], tokens: Sequence[int], error: float) -> int | None:
    """Requests for a relative standard error of `error` in the mean acceptance length Σ tokens / Σ steps.

    steps, tokens: of each request: verification passes, and tokens that these committed
    A ratio whose clusters are requests (Cochran, 1977, "Sampling techniques", §6.4): long requests weigh more, so
    a heavy tail of lengths costs requests. None with fewer than two requests.
    """
    if len(steps) < 2 or not sum(steps) or not sum(tokens):
        return None
    x, y = np.asarray(steps, dtype=float), np.asarray(tokens, dtype=float)
    residual = y - y.sum() / x.sum() * x
    relative_variance = float(residual.var(ddof=1)) / float(y.mean()) ** 2
    return max(1, math.ceil(relative_variance / error**2))


def _below(distance: float, spread: float, n: int, level: float) -> float:
    """P(mean + t s/√n < 0) where the truth is `distance`: the upper end of the interval falls below the bound."""
    if spread == 0:
        return float(distance < 0)
    return float(nctdtr(n - 1, distance / spread * math.sqrt(n), -float(stdtrit(n - 1, 0.5 + level / 2))))


def _within(margin: float, spread: float, n: int, level: float) -> float:
    """P(|mean| + t s/√n < margin) where the truth is 0: over s, P(|mean| < what s leaves of the margin)."""
    if spread == 0:
        return 1.0
    error, t, dof = spread / math.sqrt(n), float(stdtrit(n - 1, 0.5 + level / 2)), n - 1
    widest = margin / (t * error) * math.sqrt(dof)  # of chi(n − 1), beyond which the interval alone is too wide

    def density(x: float) -> float:
        room = margin / error - t * x / math.sqrt(dof)
        return float(chi.pdf(x, dof) * (2 * ndtr(room) - 1))

    end = min(widest, math.sqrt(dof) + 8)
    return float(quad(density, max(0.0, math.sqrt(dof) - 8), end)[0]) if end > math.sqrt(dof) - 8 else 0.0


def _fewest(probability: Callable[[int], float], power: float) -> int | None:
    """The smallest n ≥ 2 with at least that probability, which grows with n."""
    high = 2
    while probability(high) < power:
        if high == MOST_PAIRS:
            return None
        high = min(2 * high, MOST_PAIRS)
    low = max(2, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if probability(middle) < power else (low, middle)
    return low
