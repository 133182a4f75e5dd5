"""G-tests: are next tokens as frequent as the target's probabilities, or as another sample's frequencies, say?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import xlogy

from specbench.equivalence.sampling.observations import Floats
from specbench.equivalence.sampling.power import detectable_tv
from specbench.equivalence.sampling.results import Effect, TestResult, not_made
from specbench.equivalence.sampling.strata import Stratum, total_draws

_SIDE = 0.025


def one_sample(name: str, parts: Sequence[Stratum], level: float) -> TestResult:
    """The G-test of counts against known probabilities, summed over strata (Sokal and Rohlf, Biometry, chapter 17).

    G = 2 Σ O·ln(O/E), chi-square with Σ (cells - 1) degrees of freedom under the target's own distribution. Each
    stratum's is divided by Williams' correction, which small counts need.
    """
    if not parts:
        return not_made(name, "no place had enough draws")
    g = sum(2 * float(xlogy(s.counts, s.counts / (s.draws * s.probs)).sum()) / williams(s) for s in parts)
    df, n = sum(len(s.counts) - 1 for s in parts), total_draws(parts)
    return TestResult(
        name,
        statistic=max(g, 0.0),
        p=float(stats.chi2.sf(g, df)),
        n=n,
        df=df,
        effect=effect(parts),
        detectable=detectable_tv(n, df, level),
        detail=f"{len(parts)} places",
    )


def williams(part: Stratum) -> float:
    """By how much G is too large on average: 1 + (Σ 1/p - 1) / 6n(k-1) (Williams, Biometrika 63, 1976)."""
    return float(1 + ((1 / part.probs).sum() - 1) / (6 * part.draws * (len(part.probs) - 1)))


def two_sample(name: str, pairs: Sequence[tuple[Floats, Floats]], level: float) -> TestResult:
    """The G-test of homogeneity of two samples' counts, summed over strata; where probabilities are not known.

    Needs twice the draws, in each arm, of the test against known probabilities.
    """
    if not pairs:
        return not_made(name, "no place had enough draws in both arms")
    g, df, least = 0.0, 0, 0.0
    for a, b in pairs:
        expected = (a + b) / (a.sum() + b.sum())
        of_table = sum(2 * float(xlogy(c, c / (c.sum() * expected)).sum()) for c in (a, b))
        g += of_table / _williams_of_table(a, b)
        df += len(a) - 1
        least += 1 / (1 / a.sum() + 1 / b.sum())
    return TestResult(
        name,
        statistic=max(g, 0.0),
        p=float(stats.chi2.sf(g, df)),
        n=int(sum(a.sum() + b.sum() for a, b in pairs)),
        df=df,
        effect=_between(pairs),
        # As informative as this many draws against known probabilities.
        detectable=detectable_tv(int(least), df, level),
        detail=f"{len(pairs)} places, against draws of the baseline",
    )


def _williams_of_table(a: Floats, b: Floats) -> float:
    """The same for a table of two rows and k columns (Sokal and Rohlf, box 17.6)."""
    n, rows, columns = a.sum() + b.sum(), np.array([a.sum(), b.sum()]), a + b
    factor = (n * (1 / rows).sum() - 1) * (n * (1 / columns).sum() - 1)
    return float(1 + factor / (6 * n * (len(a) - 1)))


def effect(parts: Sequence[Stratum]) -> Effect:
    """Total variation from the known probabilities, the mean over draws.

    The plug-in value ½ Σ|O/n - p| is too large by chance; the estimate has the square of what is expected under no
    bias, about ½ Σ √(2p(1-p)/πn), taken off its square. The interval is a guarantee: the plug-in value moves by at
    most 1/n with one draw (McDiarmid), is never too small on average (Jensen), and too large by at most
    ½ Σ √(f(1-f)/n).
    """
    n = sum(s.draws for s in parts)
    plug_in = sum(np.abs(s.counts - s.draws * s.probs).sum() for s in parts) / (2 * n)
    by_chance = sum(s.draws * _mean_distance(s.probs, s.draws) for s in parts) / n
    excess = sum(s.draws * _most_distance(s.counts / s.draws, s.draws) for s in parts) / n
    slack = math.sqrt(math.log(1 / _SIDE) / (2 * n))
    return _effect(float(plug_in), float(by_chance), float(excess), slack)


def _between(pairs: Sequence[tuple[Floats, Floats]]) -> Effect:
    """As `effect`, where both sides are samples: both are off by chance."""
    n = sum(a.sum() for a, _ in pairs)
    plug_in = by_chance = excess = 0.0
    for a, b in pairs:
        both = (a + b) / (a.sum() + b.sum())
        informative = 1 / (1 / a.sum() + 1 / b.sum())
        plug_in += a.sum() * float(np.abs(a / a.sum() - b / b.sum()).sum()) / 2
        by_chance += a.sum() * _mean_distance(both, informative)
        excess += a.sum() * (_most_distance(a / a.sum(), a.sum()) + _most_distance(b / b.sum(), b.sum()))
    slack = math.sqrt(math.log(1 / _SIDE) / 2 * sum((a.sum() / n) ** 2 * (1 / a.sum() + 1 / b.sum()) for a, b in pairs))
    return _effect(plug_in / n, by_chance / n, excess / n, slack)


def _effect(plug_in: float, by_chance: float, excess: float, slack: float) -> Effect:
    return Effect(
        tv=math.sqrt(max(0.0, plug_in**2 - by_chance**2)),
        low=max(0.0, plug_in - excess - slack),
        high=min(1.0, plug_in + slack),
    )


def _mean_distance(probs: Floats, n: float) -> float:
    return float(np.sqrt(2 * probs * (1 - probs) / (math.pi * n)).sum()) / 2


def _most_distance(shares: Floats, n: float) -> float:
    return float(np.sqrt(shares * (1 - shares) / n).sum()) / 2
