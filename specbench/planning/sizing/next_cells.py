"""What to measure next, to be surer of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from specbench.planning.cells import PLAIN, Point
from specbench.planning.design import information
from specbench.planning.fit import DISCREPANCY, Fit
from specbench.planning.sizing.case import Case
from specbench.planning.sizing.services import gamma_at

_MOST = 3


@dataclass(frozen=True)
class NextCell:
    """share: of the variance of ln speedup, at the batch sizes of the plan, that is gone when this cell and those
    before it are measured
    """

    method: str
    gamma: int
    batch_size: int
    share: float


def next_cells(case: Case, gammas: Sequence[int], batch_size: int) -> tuple[NextCell, ...]:
    """One after the other, each the one that tells most once those before it are known.

    batch_size: requests in flight of a replica at the peak
    """
    workload, method = case.arm
    demand, largest = case.demand, max(case.largest_batches)

    def point(gamma: int, size: int) -> Point:
        drafting = (method, gamma, case.drafted_share) if gamma else (PLAIN, 0, 1.0)
        return Point(workload, *drafting[:2], size, demand.prompt_tokens, demand.output_tokens, drafting[2])

    sizes = sorted({min(largest, 2**k) for k in range(largest.bit_length() + 1)})
    candidates = [point(gamma, size) for size in sizes for gamma in (0, *gammas)]
    with_it = [point(gamma_at(case.schedule, size) or gammas[0], size) for size in (batch_size, largest)]
    before = _variance(case.fit, with_it)
    found: list[NextCell] = []
    fit = case.fit
    while len(found) < _MOST:
        best = candidates.pop(int(information(fit, candidates, with_it, [p.plain for p in with_it]).argmax()))
        fit = _having_measured(fit, best)
        found.append(NextCell(best.method, best.gamma, best.batch_size, 1 - _variance(fit, with_it) / before))
    return tuple(found)


def _having_measured(fit: Fit, cell: Point) -> Fit:
    (here,) = fit.sensitivity([cell])
    shared = fit.covariance @ here
    gone = np.outer(shared, shared) / (here @ shared + fit.noise**2 + DISCREPANCY**2)
    return replace(fit, covariance=fit.covariance - gone)


def _variance(fit: Fit, points: Sequence[Point]) -> float:
    """Of ln speedup, summed over points."""
    gain = fit.sensitivity(points) - fit.sensitivity([p.plain for p in points])
    return float(np.einsum("ip,pq,iq->", gain, fit.covariance, gain))
