"""Which arm is fastest on a workload at a batch size, and how sure that is, over cells measured and predicted alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from specbench.analysis.verdict import WORTHWHILE
from specbench.planning.cells import Point
from specbench.planning.posterior import draws, posterior
from specbench.planning.prediction import Calibrated

AS_GOOD = math.log(WORTHWHILE)
"""An arm that falls behind the fastest by less (3 %) is as good: to tell such arms apart takes sweeps without end."""

_DRAWS = 4_000


@dataclass(frozen=True, slots=True)
class BestArm:
    """The arm to take on one workload at one batch size; plain decoding is one of those to choose from.

    best:        its index among the points of the grid
    probability: that no arm there is faster by more than 3 % (a good selection, in the words of ranking and selection)
    ahead:       by index of another arm there, the probability that this one is faster by more than that
    """

    best: int
    probability: float
    ahead: Mapping[int, float]


def best_arms(found: Calibrated, grid: Sequence[Point]) -> tuple[BestArm, ...]:
    """One for each workload and batch size of the grid, in its order.

    By draws of ln throughput at all points together, so that what arms share cancels.
    """
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    # Plain decoding first: it is taken where another is no likelier to be good.
    for i in sorted(range(len(grid)), key=lambda i: grid[i].gamma > 0):
        groups[grid[i].workload, grid[i].batch_size].append(i)
    centre, covariance = posterior(found, grid)
    rates = centre + draws(covariance, _DRAWS)
    chosen = []
    for group in groups.values():
        its = rates[:, group]
        good = (its.max(axis=1, keepdims=True) - its <= AS_GOOD).mean(axis=0)
        best = int(good.argmax())
        ahead = (its - its[:, [best]] > AS_GOOD).mean(axis=0)
        others = {i: float(p) for i, p in zip(group, ahead, strict=True) if i != group[best]}
        chosen.append(BestArm(group[best], float(good[best]), others))
    return tuple(chosen)
