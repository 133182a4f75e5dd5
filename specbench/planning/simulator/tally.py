"""What is counted on the way: histograms of latencies and sums over time, of one size for any number of requests."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.planning.simulator.compiled import compiled

Floats = NDArray[np.float64]

SHORTEST, WIDTH, BINS = 1e-6, 0.01, 2800
"""Bins of latency: from a microsecond on, each 1 % wider than the one before, to beyond ten days."""
_LOG_WIDTH = float(np.log1p(WIDTH))

BATCHES = 20
"""Stretches of time whose means and quantiles make the intervals (batch means)."""

TTFT, TPOT, E2E, WAIT = range(4)
METRICS = ("ttft", "tpot", "e2e", "wait")

(
    ARRIVED,
    FINISHED,
    GOOD,
    EMITTED,
    BUSY,
    SEQUENCES,
    CACHE,
    STEPS,
    DECODED,
    DRAFTED,
    ACCEPTED,
    SUSPENDED,
    PREEMPTED,
    REUSED,
    PREFILLED,
    AWAY,
    FAILED,
) = range(17)
"""Columns: requests that arrived, finished, and met the objective (the latter two by when they end); tokens put out;
seconds of steps; sequences and blocks of the cache × seconds of the step; steps; sequences that decoded in them; of
these, drafted and accepted tokens, and times that the rule let nothing be drafted; preemptions; tokens of prompts found
in the cache, and read; seconds that replicas were away; failures."""
COLUMNS = 17


class Tally(NamedTuple):
    """histograms: requests by latency, those that arrived between start and end [metric, batch, bin]
    sums: their latencies, seconds [metric, batch]
    course: sums by column, interval by interval, from 0 on
    course_ttft, course_tpot: requests by latency and the interval in which they arrived
    limits: seconds of TTFT, TPOT and E2E that a well served request keeps
    start, end: seconds between which things count, the start where an interval begins;  interval: seconds
    """

    histograms: NDArray[np.int64]
    sums: Floats
    course: Floats
    course_ttft: NDArray[np.int32]
    course_tpot: NDArray[np.int32]
    limits: Floats
    start: float
    end: float
    interval: float

    @property
    def totals(self) -> Floats:
        """By column, of what was between start and end."""
        return np.asarray(self.course[round(self.start / self.interval) :].sum(axis=0))


def empty(start: float, end: float, interval: float, limits: Floats) -> Tally:
    intervals = max(1, int(np.ceil(end / interval)))
    return Tally(
        np.zeros((len(METRICS), BATCHES, BINS), np.int64),
        np.zeros((len(METRICS), BATCHES)),
        np.zeros((intervals, COLUMNS)),
        np.zeros((intervals, BINS), np.int32),
        np.zeros((intervals, BINS), np.int32),
        limits,
        start,
        end,
        interval,
    )


@compiled
def bin_of(seconds: float) -> int:
    if seconds <= SHORTEST:
        return 0
    return min(int(np.log(seconds / SHORTEST) / _LOG_WIDTH), BINS - 1)


@compiled
def add(tally: Tally, time: float, column: int, amount: float) -> None:
    """Something happened; what comes after the end is drained and counts for its requests alone."""
    if time < tally.end:
        tally.course[_interval(tally, time), column] += amount


@compiled
def together(tally: Tally, one: float, other: float) -> bool:
    """Whether what happens at these two times counts for the same interval, or for none."""
    return _interval(tally, one) == _interval(tally, other) and (one < tally.end) == (other < tally.end)


@compiled
def add_step(
    tally: Tally, time: float, seconds: float, sequences: int, blocks: int, read: float, decoded: int, drafted: float,
    suspended: int,
) -> None:  # fmt: skip
    """A step of a replica begins. blocks: of its cache that are taken"""
    if time >= tally.end:
        return
    row = tally.course[_interval(tally, time)]
    row[STEPS] += 1
    row[BUSY] += seconds
    row[SEQUENCES] += seconds * sequences
    row[CACHE] += seconds * blocks
    row[PREFILLED] += read
    row[DECODED] += decoded
    row[DRAFTED] += drafted
    row[SUSPENDED] += suspended


@compiled
def finish(tally: Tally, request: Any, now: float) -> None:
    """A request has put out its last token."""
    ttft, e2e = request.first - request.arrival, now - request.arrival
    tpot = (now - request.first) / (request.output - 1) if request.output > 1 else 0.0
    add(tally, now, FINISHED, 1.0)
    if ttft <= tally.limits[TTFT] and tpot <= tally.limits[TPOT] and e2e <= tally.limits[E2E]:
        add(tally, now, GOOD, 1.0)
    if request.arrival < tally.end:
        interval = _interval(tally, request.arrival)
        tally.course_ttft[interval, bin_of(ttft)] += 1
        if request.output > 1:
            tally.course_tpot[interval, bin_of(tpot)] += 1
    if not tally.start <= request.arrival < tally.end:
        return
    share = (request.arrival - tally.start) / (tally.end - tally.start)
    batch = min(int(share * BATCHES), BATCHES - 1)
    _count(tally, TTFT, batch, ttft)
    _count(tally, E2E, batch, e2e)
    _count(tally, WAIT, batch, request.started - request.arrival)
    if request.output > 1:
        _count(tally, TPOT, batch, tpot)


@compiled
def _interval(tally: Tally, time: float) -> int:
    return min(int(time / tally.interval), len(tally.course) - 1)


@compiled
def _count(tally: Tally, metric: int, batch: int, seconds: float) -> None:
    tally.histograms[metric, batch, bin_of(seconds)] += 1
    tally.sums[metric, batch] += seconds
