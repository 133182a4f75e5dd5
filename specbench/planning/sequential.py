"""Which cells of a grid to measure next, and when enough is known to stop."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.statistics import LEVEL
from specbench.planning.best_arm import BestArm, best_arms
from specbench.planning.cells import Point, arms_of
from specbench.planning.posterior import posterior
from specbench.planning.prediction import Calibrated
from specbench.planning.reach import chances

Floats = NDArray[np.float64]
Reason = Literal["settled", "budget", "out of reach", "nothing left"]

HOPE = 0.1
"""A place is given up while measuring all that is left would settle it with less than this probability."""


@dataclass(frozen=True, slots=True)
class Costs:
    """In seconds, or in any unit.

    launch: of a server's start;  cells: of measuring each point of the grid once
    """

    launch: float
    cells: tuple[float, ...]

    def of(self, visit: Collection[int]) -> float:
        """Of one launch that measures these points."""
        return self.launch + math.fsum(self.cells[i] for i in visit)


@dataclass(frozen=True, slots=True)
class Look:
    """What the cells measured so far say.

    best:   the best arm at every workload and batch size; empty while nothing is measured
    visit:  indices of the points to measure next, on one launch of one arm, dearest information first; empty to stop
    reason: why it stops; None while it goes on
    """

    best: tuple[BestArm, ...]
    visit: tuple[int, ...] = ()
    reason: Reason | None = None


def look(
    found: Calibrated | None,
    grid: Sequence[Point],
    left: Mapping[int, int],
    costs: Costs,
    *,
    confidence: float = LEVEL,
    budget: float = math.inf,
) -> Look:
    """The next visit, or why there is none.

    found:  the fit of all cells measured so far, None before the first
    left:   how many visits of each point there may still be, by its index
    budget: what may still be spent, in the unit of the costs

    First the start design. Then, while the best arm of some workload and batch size is not known and what is left may
    settle it, the points that tell most of it per unit of cost. At the end, what is missing for each arm that
    speculates and is known to be the best anywhere to have been measured beside plain decoding once: an advice to
    switch something on rests on a comparison.
    """
    seen = {o.point.key for o in found.fit.observations} if found else set()
    best = best_arms(found, grid) if found else ()
    wanted = [i for i in start_design(grid) if i in left and grid[i].key not in seen]
    sure = [b for b in best if b.probability >= confidence]
    ended: Reason = "settled" if len(sure) == len(best) else "out of reach" if left else "nothing left"
    if wanted:
        visit = [i for i in wanted if _arm(grid[i]) == _arm(grid[wanted[0]])]
        ended = "budget"
    elif found is None:
        return Look(best, (), "nothing left")
    elif open_places := _within_reach(found, grid, best, left, confidence):
        visit = _most_telling(found, grid, open_places, left, costs)
        ended = "budget"
    else:
        visit = _unpaired(grid, sure, seen, left)
    affordable = list(visit)
    while affordable and costs.of(affordable) > budget:
        affordable.pop()
    return Look(best, tuple(affordable), None if affordable else ended)


def _within_reach(
    found: Calibrated, grid: Sequence[Point], best: Sequence[BestArm], left: Mapping[int, int], confidence: float
) -> list[BestArm]:
    """Of the places that are not settled, those that what is left to measure may settle."""
    unsure = [b for b in best if b.probability < confidence]
    if not (unsure and left):
        return []
    hopes = chances(found, grid, unsure, left, confidence)
    return [b for b, hope in zip(unsure, hopes, strict=True) if hope >= HOPE]


def start_design(grid: Sequence[Point]) -> tuple[int, ...]:
    """Indices of the points to begin with: plain decoding at the middle and the largest batch size; the middle gamma at
    the smallest batch size, the largest at the largest, the smallest at the middle one, dealt out to the arms (workload
    and method) in turn, until each has one.
    """
    arms = arms_of(grid)
    if not arms:  # all of them may have failed
        return ()
    at = {p.key: i for i, p in enumerate(grid)}
    sizes = sorted({p.batch_size for p in grid})
    gammas = sorted({p.gamma for p in grid if p.gamma})
    middle = sizes[len(sizes) // 2]
    places = ((gammas[len(gammas) // 2], sizes[0]), (gammas[-1], sizes[-1]), (gammas[0], middle))
    plain = [p.plain.key for p in grid if p.workload == grid[0].workload and p.batch_size in (middle, sizes[-1])]
    dealt = [(*arms[i % len(arms)], *places[i % 3]) for i in range(max(3, len(arms)))]
    return tuple(at[key] for key in dict.fromkeys([*plain, *dealt]) if key in at)


def _arm(p: Point) -> tuple[str, int]:
    """What a server is launched for: it serves all workloads and batch sizes."""
    return p.method, p.gamma


def _most_telling(
    found: Calibrated, grid: Sequence[Point], unsure: Sequence[BestArm], left: Collection[int], costs: Costs
) -> list[int]:
    """Points of one arm, first the one that lowers the variance of the differences in question most per unit of cost.

    A difference is in question between the best arm and another as far as that may be ahead of it. What a measurement
    does to variances does not depend on what it shows (to first order), so the visit is planned to its end: as long as
    the next point of the same arm, which needs no further start, tells more than one of another arm that does.
    """
    _, covariance = posterior(found, grid)
    here, there, weights = zip(*((b.best, i, p) for b in unsure for i, p in b.ahead.items()), strict=True)
    visit: list[int] = []
    while remaining := sorted(set(left) - set(visit)):
        differences = covariance[list(there)] - covariance[list(here)]
        variance = covariance.diagonal() + found.fit.noise**2
        told = np.asarray(weights) @ differences**2 / variance
        price = [
            costs.cells[i] + (0 if visit and _arm(grid[i]) == _arm(grid[visit[0]]) else costs.launch) for i in remaining
        ]
        chosen = remaining[int(np.argmax(told[remaining] / price))]
        if visit and _arm(grid[chosen]) != _arm(grid[visit[0]]):
            break
        visit.append(chosen)
        covariance = covariance - np.outer(covariance[chosen], covariance[chosen]) / variance[chosen]
    return visit


def _unpaired(
    grid: Sequence[Point], best: Sequence[BestArm], seen: Collection[tuple[str, str, int, int]], left: Collection[int]
) -> list[int]:
    """A point that keeps a winning arm from having been measured beside plain decoding; none where all have been."""
    at = {p.key: i for i, p in enumerate(grid)}
    winners = [grid[b.best] for b in best if grid[b.best].gamma]
    for workload, method, gamma in dict.fromkeys((p.workload, p.method, p.gamma) for p in winners):
        its = [p for p in grid if (p.workload, p.method, p.gamma) == (workload, method, gamma) and p.plain.key in at]
        lacking = [[at[key] for key in (p.key, p.plain.key) if key not in seen] for p in its]
        possible = [pair for pair in lacking if all(i in left for i in pair)]
        if possible and all(lacking):
            return min(possible, key=len)[:1]
    return []
