"""One test over all positions of all outputs: the randomised probability integral transform."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from scipy import stats

from specbench.equivalence.sampling.observations import Draw, Floats, Known
from specbench.equivalence.sampling.results import TestResult, not_made
from specbench.equivalence.sampling.strata import Positions

LEAST_VALUES = 100
_BINS = 20


def values(draws: Iterable[Draw], known: Known, positions: Positions, rng: np.random.Generator) -> Floats:
    """F(x-) + V·p(x) for every token x whose place is known, V uniform; cells in falling order of probability.

    Independent and uniform if each token was drawn from the target's distribution given those before it, whatever
    these are (Rosenblatt, 1952; for discrete values Brockwell, 2007): one test holds for positions that never repeat.
    """
    found = []
    for draw in draws:
        for position in positions(draw):
            if (distribution := known.get(draw.place(position))) is not None:
                cells = distribution.cells()
                cell = distribution.cell(draw.tokens[position])
                found.append(cells[:cell].sum() + rng.random() * cells[cell])
    return np.asarray(np.clip(np.array(found), 0.0, 1.0))


def tests(u: Floats) -> tuple[TestResult, TestResult]:
    """Kolmogorov-Smirnov sees a drift towards likely or unlikely tokens, chi-square in bins any other shape."""
    names = "PIT, Kolmogorov-Smirnov", "PIT, chi-square"
    if len(u) < LEAST_VALUES:
        reason = f"{len(u)} positions with known probabilities; it takes {LEAST_VALUES}"
        return not_made(names[0], reason), not_made(names[1], reason)
    ks = stats.kstest(u, "uniform")
    counts = np.histogram(u, _BINS, (0.0, 1.0))[0]
    chi = stats.chisquare(counts)
    return (
        TestResult(names[0], float(ks.statistic), float(ks.pvalue), len(u)),
        TestResult(names[1], float(chi.statistic), float(chi.pvalue), len(u), df=_BINS - 1),
    )
