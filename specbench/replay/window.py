"""The steady window of a closed loop: whole refill cycles, without the first cohort and the drain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.replay.records import RequestTrace
from specbench.replay.timeline import arrivals

Times = NDArray[np.float64]

WHOLE_CYCLE = 0.95
"""Cycles from which a window counts as whole: cohorts in step end a hair apart, so their one cycle measures .99."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of time that holds prefills and decodes in their true proportion.

    start, end: seconds on the clock of the traces
    cycles: times that a slot was refilled and served its request to the end, mean over slots; edges count in part
    """

    start: float
    end: float
    cycles: float

    @property
    def length(self) -> float:
        return self.end - self.start


def steady_window(traces: Sequence[RequestTrace], batch_size: int) -> Window | None:
    """From the completion that ends the first cohort to the one after which fewer than `batch_size` are in flight.

    Both ends are completions, so every decode in the window stands with its prefill: a window from "all decode" to
    "one has ended" would hold k decodes but k−1 prefills and flatter the faster decoder. Of n requests, the first
    n − batch_size completions are refilled; the next one ends the window.

    None where that is under one whole refill cycle per slot. traces: all requests of the run, in the order of sending.
    """
    refills = len(traces) - batch_size
    if refills < 1:
        return None
    scheduled = np.array([trace.scheduled for trace in traces])
    finished = np.array([trace.finished for trace in traces])
    start, end = float(finished[:batch_size].max()), float(np.sort(finished)[refills])
    cycles = float(_share(scheduled, finished, start, end).sum()) / batch_size
    return Window(start, end, cycles) if cycles >= WHOLE_CYCLE else None


def tokens_in(traces: Iterable[RequestTrace], window: Window) -> float:
    """Output tokens made in the window; at its edges a chunk counts by the part of its gap that lies inside.

    A chunk's tokens were made in the gap since the request's previous arrival. The first chunk's were made between
    sending and arrival: that gap is the prefill (and any queue), whose product the first token is. Counting it
    at the instant of its arrival instead would book the whole of a prefill to the side on which it ended; this way a
    slot's time is tiled without holes, and tokens over all time are all tokens.
    """
    total = 0.0
    for trace in traces:
        times, tokens = arrivals(trace)
        begins = np.concatenate(([trace.sent], times))[:-1]
        total += float((tokens * _share(begins, times, window.start, window.end)).sum())
    return total


def _share(begin: Times, end: Times, start: float, stop: float) -> Times:
    """The part of each interval (begin, end] that lies in (start, stop]; an instant lies inside or not."""
    instant = ((start < end) & (end <= stop)).astype(np.float64)
    overlap = np.clip(np.minimum(end, stop) - np.maximum(begin, start), 0, None)
    share: Times = np.divide(overlap, end - begin, out=instant, where=end > begin)
    return share
