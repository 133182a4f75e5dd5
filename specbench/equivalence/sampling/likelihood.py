"""Is the target's mean log-likelihood of what was drawn what it should be? An equivalence test: it can say yes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from specbench.equivalence.sampling.observations import Draw, Known
from specbench.equivalence.sampling.strata import Positions, next_tokens

MARGIN = 0.05
"""Nats per token: less is no difference that anybody would see in text."""

LEVEL = 0.05
_LEAST = 100
_IMPOSSIBLE = 1e-12
"""Taken for the probability of a token that has none: one of them outweighs all that could be right."""


@dataclass(frozen=True, slots=True)
class LikelihoodCheck:
    """Two one-sided tests (Schuirmann, 1987) of the mean of log p(token) minus its expectation, at every position.

    difference, error: nats per token, and its standard error · margin: what counts as equal, to either side
    p: of the hypothesis that the difference is the margin or more; None with too few positions
    """

    n: int
    difference: float | None
    error: float | None
    p: float | None
    margin: float = MARGIN

    @property
    def is_equivalent(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def tokens_needed(self) -> int | None:
        """Tokens that would show equality, if there is any, 99 times of 100: σ²(z.95 + z.995)²/δ². None without σ."""
        if self.error is None:
            return None
        z = float(stats.norm.ppf(1 - LEVEL) + stats.norm.ppf(0.995))
        return math.ceil(self.n * (self.error * z / self.margin) ** 2)


def check(draws: Iterable[Draw], known: Known, positions: Positions, margin: float = MARGIN) -> LikelihoodCheck:
    """Against the known expectation, -H(p) at each place, so no second arm and no design effect: the differences are a
    martingale's, whatever the places.

    A token of the rest has the rest's log-probability: the test then is about the known cells, and as valid.
    """
    differences: list[float] = []
    variance = 0.0
    for place, tokens in next_tokens(draws, positions).items():
        if (distribution := known.get(place)) is not None:
            cells = distribution.cells()
            logs = np.log(np.maximum(cells, _IMPOSSIBLE))
            mean = float(cells @ logs)
            differences += [float(logs[distribution.cell(token)]) - mean for token in tokens.elements()]
            variance += tokens.total() * float(cells @ (logs - mean) ** 2)
    n = len(differences)
    if n < _LEAST or variance == 0:
        return LikelihoodCheck(n, None, None, None, margin)
    difference, error = float(np.mean(differences)), math.sqrt(variance) / n
    p = float(stats.norm.sf((margin - abs(difference)) / error))
    return LikelihoodCheck(n, difference, error, p, margin)
