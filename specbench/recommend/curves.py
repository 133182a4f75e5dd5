"""Speedup between measured batch sizes, and gamma by batch size: where to speculate, with how much."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from specbench.analysis.bootstrap import RESAMPLES
from specbench.analysis.verdict import WORTHWHILE
from specbench.recommend.draws import Floats, Range
from specbench.recommend.evidence import Candidate, Evidence
from specbench.schedule import Schedule


@dataclass(frozen=True)
class GammaByBatch:
    """One method with its gamma at every whole batch size up to the largest measured one; 0 is off.

    gammas:       by batch size; off below the smallest measured one and above the largest
    log_speedups: ln speedup at each of them, its point and draws [RESAMPLES]; 0 where it is off
    """

    method: str
    gammas: Mapping[int, int]
    log_speedups: Mapping[int, tuple[float, Floats]]

    @property
    def is_on(self) -> bool:
        return any(self.gammas.values())

    @property
    def schedule(self) -> Schedule:
        """Off beyond what was measured. Only for a method that is on anywhere."""
        return Schedule.of({**self.gammas, max(self.gammas) + 1: 0})

    def at(self, batch_size: int) -> tuple[float, Floats]:
        """ln speedup at a batch size: none beyond what was measured, since it is off there."""
        return self.log_speedups.get(batch_size, (0.0, np.zeros(RESAMPLES)))


def gamma_by_batch(evidence: Evidence, method: str) -> GammaByBatch:
    """The gamma of a method at every batch size: the fastest of those that may be on there.

    On at a measured batch size may be what gains there (the whole interval above 1), and what points above 1 where that
    same gamma gains at a larger batch size: the rule of the sweep's verdict. Between two measured ones ln speedup is
    interpolated over ln batch size. On there may be what may be on at both, or at one while the other shows a loss: up
    to where the line crosses 1. A gamma that is no evidence at a batch size (its outputs diverge there, it failed) is
    off there and up to the next ones.
    """
    arms = {gamma: by_batch for (name, gamma), by_batch in evidence.arms.items() if name == method}
    allowed = {gamma: _allowed(by_batch) for gamma, by_batch in arms.items()}
    gammas, speedups = {}, {}
    for size in range(1, max(evidence.batch_sizes) + 1):
        best = (0, 0.0, np.zeros(RESAMPLES))
        for gamma, by_batch in sorted(arms.items()):
            found = _at(size, by_batch, evidence.batch_sizes, allowed[gamma])
            if found is not None and found[0] > best[1]:
                best = (gamma, *found)
        gammas[size], speedups[size] = best[0], best[1:]
    return GammaByBatch(method, gammas, speedups)


def constant_gamma(
    evidence: Evidence, method: str, gamma: int, sizes: Collection[int] | None = None
) -> GammaByBatch | None:
    """The same gamma at these batch sizes, gain or loss; None where it is no evidence at one of them.

    sizes: every one up to the largest measured one by default
    """
    by_batch = evidence.arms.get((method, gamma), {})
    asked = sizes or range(1, max(evidence.batch_sizes) + 1)
    found = {size: _at(size, by_batch, evidence.batch_sizes, set(by_batch)) for size in asked}
    known = {size: value for size, value in found.items() if value is not None}
    return GammaByBatch(method, dict.fromkeys(known, gamma), known) if len(known) == len(found) else None


def loses(evidence: Evidence, batch_size: int) -> bool:
    """Whether no arm gains anything worth while at a batch size: each was measured there, or on both sides of it, to
    have no gain. False where an arm is no evidence or unsure.
    """
    found = False
    for by_batch in evidence.arms.values():
        ends = [by_batch[end] for end in _ends(batch_size, evidence.batch_sizes) if end in by_batch]
        here = _at(batch_size, by_batch, evidence.batch_sizes, set(by_batch))
        if here is None or here[0] > math.log(WORTHWHILE) or all(end.outcome != "no gain" for end in ends):
            return False
        found = True
    return found


def _allowed(by_batch: Mapping[int, Candidate]) -> set[int]:
    gaining = [size for size, candidate in by_batch.items() if candidate.outcome == "gain"]
    return {
        size
        for size, candidate in by_batch.items()
        if candidate.outcome == "gain"
        or (candidate.outcome == "unsure" and not candidate.bars and size < max(gaining, default=0))
    }


def _at(
    size: int, by_batch: Mapping[int, Candidate], measured: Sequence[int], allowed: set[int]
) -> tuple[float, Floats] | None:
    """ln speedup at a batch size where speculation may be on; None where it may not.

    measured: batch sizes of the run: one that `by_batch` lacks is no evidence, and no line goes across it
    """
    ends = _ends(size, measured)
    if not ends or any(end not in by_batch for end in ends):
        return None
    low, high = by_batch[ends[0]], by_batch[ends[-1]]
    if not all(end.batch_size in allowed or end.log_speedup <= 0 for end in (low, high)):
        return None
    if not allowed & set(ends):
        return None
    if low is high:
        return low.log_speedup, low.draws
    share = math.log(size / low.batch_size) / math.log(high.batch_size / low.batch_size)
    point = (1 - share) * low.log_speedup + share * high.log_speedup
    return point, (1 - share) * low.draws + share * high.draws


def _ends(size: int, measured: Sequence[int]) -> tuple[int, ...]:
    """The batch size itself where it was measured, else the measured ones next to it; none outside of them."""
    if size in measured:
        return (size,)
    return next((pair for pair in pairwise(measured) if pair[0] < size < pair[1]), ())


@dataclass(frozen=True, slots=True)
class TurnOff:
    """The batch size above which speculation no longer pays, by the line through the measured speedups.

    batch_size: interpolated over ln batch size; 0 where it pays nowhere; None where it still pays at the largest
        measured one. Its interval's high end is None where it may pay at the largest measured one
    """

    batch_size: Range
    smallest: int
    largest: int


def turn_off_above(evidence: Evidence, method: str) -> TurnOff | None:
    """Of a method with its best gamma at each batch size; None for one without a sound cell.

    The first crossing from above 1 to below; where the smallest batch size already loses, the first crossing after
    speculation has begun to pay.
    """
    best = {
        size: max(candidates, key=lambda c: c.log_speedup)
        for size in evidence.batch_sizes
        if (candidates := [b[size] for (name, _), b in evidence.arms.items() if name == method and size in b])
    }
    if not best:
        return None
    sizes = np.array(list(best), dtype=float)
    point = _crossings(sizes, np.array([[c.log_speedup for c in best.values()]]))[0]
    draws = _crossings(sizes, np.stack([c.draws for c in best.values()], axis=1))
    return TurnOff(Range.of(float(point), draws), min(best), max(best))


def _crossings(sizes: Floats, log_speedups: Floats) -> Floats:
    """sizes [k], log_speedups [n, k] -> [n]: where each line goes below 0; 0 if never above, inf if it ends above."""
    found = np.where((log_speedups > 0).any(axis=1), math.inf, 0.0)
    for i in range(len(sizes) - 1, 0, -1):  # the first crossing is written last
        before, after = log_speedups[:, i - 1], log_speedups[:, i]
        down = (before > 0) & (after <= 0)
        share = np.divide(before, before - after, out=np.zeros_like(before), where=down)
        at = np.exp(np.log(sizes[i - 1]) + share * np.log(sizes[i] / sizes[i - 1]))
        found = np.where(down, at, found)
    return found
