"""How the drafts of one request fare: drawn from the scenario's probabilities, the same at every run."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaincinv

from specbench.simulated.scenario import Acceptance, Drafting


@dataclass(frozen=True, slots=True)
class Draft:
    """One verification pass of a sequence: tokens proposed, and how many of them were right."""

    drafted: int
    accepted: int


class Drafts:
    """A source of drafts for one request.

    age: requests and seconds since the server started, which acceptance may drift over
    """

    def __init__(
        self,
        drafting: Drafting,
        acceptance: Acceptance,
        gamma: int,
        source: random.Random,
        age: tuple[int, float] = (0, 0.0),
    ) -> None:
        self._found = drafting.found
        self._gamma = gamma
        self._source = source
        shift = drafting.drift_per_request * age[0] + drafting.drift_per_second * age[1]
        drifted = [_shifted(p, shift) for p in acceptance.probabilities(gamma)]
        self._probabilities = _correlated(drifted, drafting.spread, source.random())

    def next(self, gamma: int | None = None) -> Draft:
        """The next step's draft. Position k is judged only where all before it were right.

        gamma: tokens that this step may propose, where a schedule says fewer
        """
        gamma = self._gamma if gamma is None else gamma
        if not gamma or (self._found < 1 and self._source.random() >= self._found):
            return Draft(0, 0)
        accepted = 0
        while accepted < gamma and self._source.random() < self._probabilities[accepted]:
            accepted += 1
        return Draft(gamma, accepted)


def _shifted(p: float, shift: float) -> float:
    """p with `shift` added to its log-odds."""
    if not shift or p in (0.0, 1.0):
        return p
    return 1 / (1 + math.exp(-(math.log(p / (1 - p)) + shift)))


def _correlated(probabilities: Sequence[float], spread: float, quantile: float) -> list[float]:
    """The request's own probabilities: the same quantile of a Beta distribution about each (Drafting.spread)."""
    if not spread:
        return list(probabilities)
    c = 1 / spread - 1
    return [p if p in (0.0, 1.0) else float(betaincinv(p * c, (1 - p) * c, quantile)) for p in probabilities]
