"""The best arm at each measured batch size, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.statistics import LEVEL
from specbench.analysis.verdict import Outcome
from specbench.recommend.draws import Range
from specbench.recommend.evidence import Candidate, Evidence

NONE = "none"


@dataclass(frozen=True, slots=True)
class Contender:
    """An arm at one batch size; plain decoding (`none`, gamma 0) is one of them, with a speedup of 1.

    p_best: probability that it is the fastest of those at this batch size; they add up to 1
    tied:   whether the best one is not known to be faster than it (95 %, over both sides)
    """

    method: str
    gamma: int
    speedup: Range
    p_best: float
    outcome: Outcome | None
    tied: bool

    @property
    def label(self) -> str:
        return NONE if self.method == NONE else f"{self.method} γ{self.gamma}"


@dataclass(frozen=True, slots=True)
class BestAt:
    """batch_size, and its contenders: the largest measured speedup first."""

    batch_size: int
    contenders: tuple[Contender, ...]

    @property
    def best(self) -> Contender:
        return self.contenders[0]

    @property
    def ties(self) -> tuple[Contender, ...]:
        return tuple(c for c in self.contenders[1:] if c.tied)


def best_by_batch(evidence: Evidence) -> tuple[BestAt, ...]:
    """For every batch size that any arm was soundly measured at."""
    found = []
    for size in evidence.batch_sizes:
        candidates = [by_batch[size] for by_batch in evidence.arms.values() if size in by_batch]
        if candidates:
            found.append(BestAt(size, _rank(candidates)))
    return tuple(found)


def _rank(candidates: Sequence[Candidate]) -> tuple[Contender, ...]:
    # [arms, draws], plain decoding first: it wins where all are exactly as fast.
    draws = np.stack([np.zeros_like(candidates[0].draws), *(c.draws for c in candidates)])
    wins = np.bincount(draws.argmax(axis=0), minlength=len(draws)) / draws.shape[1]
    centres = np.array([0.0, *(c.log_speedup for c in candidates)])
    best = int(centres.argmax())
    not_slower = (draws >= draws[best]).mean(axis=1) > (1 - LEVEL) / 2
    contenders = [Contender(NONE, 0, Range(1.0, 1.0, 1.0), float(wins[0]), None, bool(not_slower[0] and best != 0))]
    contenders += [
        Contender(
            c.method,
            c.gamma,
            Range.of(math.exp(c.log_speedup), np.exp(c.draws)),
            float(wins[i]),
            c.outcome,
            bool(not_slower[i] and best != i),
        )
        for i, c in enumerate(candidates, start=1)
    ]
    order = sorted(range(len(contenders)), key=lambda i: -centres[i])
    return tuple(contenders[i] for i in order)
