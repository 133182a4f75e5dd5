"""Whether measuring what is left of a grid can settle which arm is best, before it is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from specbench.planning.best_arm import AS_GOOD, BestArm
from specbench.planning.cells import Point
from specbench.planning.posterior import draws, posterior
from specbench.planning.prediction import Calibrated

_OUTCOMES, _DRAWS = 200, 400


def chances(
    found: Calibrated, grid: Sequence[Point], unsure: Sequence[BestArm], left: Mapping[int, int], confidence: float
) -> list[float]:
    """For each place the probability that its best arm will be known to `confidence` once all that is left is measured.

    left: how many visits of each point there may still be, by its index

    Preposterior analysis (Raiffa and Schlaifer, Applied Statistical Decision Theory, 1961): what measurements do to
    covariances does not depend on what they show, and where they move the means to is normal.
    """
    centre, covariance = posterior(found, grid)
    at, times = list(left), np.array(list(left.values()))
    noise = np.diag(found.fit.noise**2 / times)
    learned = covariance[:, at] @ np.linalg.solve(covariance[np.ix_(at, at)] + noise, covariance[at])
    outcomes = centre + draws(learned, _OUTCOMES)
    doubts = draws(covariance - learned, _DRAWS)
    settled = []
    for place in unsure:
        group = [place.best, *place.ahead]
        rates = outcomes[:, None, group] + doubts[None, :, group]  # [outcomes, draws, arms]
        good = (rates.max(axis=2, keepdims=True) - rates <= AS_GOOD).mean(axis=1)
        settled.append(float((good.max(axis=1) >= confidence).mean()))
    return settled
