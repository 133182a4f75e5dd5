"""Traffic that is drawn, block by block, so that a day of a large fleet needs no more memory than a minute of it.

Gaps are never cut off: a process whose long gaps are truncated comes too fast and too evenly, and queues look half as
long as they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from specbench.errors import SpecbenchError
from specbench.workloads.traffic import Traffic
from specbench.workloads.traffic_spec import TrafficSpec

Floats = NDArray[np.float64]
Tokens = NDArray[np.int32]
Generator = np.random.Generator

_HOUR, _DAY = 3600.0, 86_400.0
_GRID = 30.0
"""Seconds between the points of a day's course; in between its rate stays."""

BLOCK = 1 << 14
"""Requests that are drawn at a time, whatever the rate: so that one seed gives the same requests at every rate."""


class Drawn(Protocol):
    """A distribution of tokens."""

    def draw(self, rng: Generator, count: int) -> Tokens: ...


class Arrivals(Protocol):
    """Traffic of a time. duration: seconds in which requests come"""

    @property
    def duration(self) -> float: ...

    def blocks(self, rng: Generator) -> Iterator[Traffic]:
        """Requests in order of arrival, of which none is later than the duration; sessions −1 where there is none."""

    def thinned(self, share: float) -> Arrivals | None:
        """What reaches a part of the replicas through a random split; None where that is no traffic of this kind."""


@dataclass(frozen=True, slots=True)
class Renewal:
    """Independent gaps. rate: requests per second;  cv: standard deviation of a gap over its mean: 1 for a Poisson
    process, above it for bursts (gaps are gamma-distributed), 0 for a clock
    """

    rate: float
    prompt: Drawn
    output: Drawn
    duration: float
    cv: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.rate < math.inf and 0 <= self.cv < math.inf):
            raise SpecbenchError(f"requests come at a rate above 0 with a cv of 0 or more; got {self.rate}, {self.cv}.")

    def blocks(self, rng: Generator) -> Iterator[Traffic]:
        now = 0.0
        while now < self.duration:
            times = now + np.cumsum(self._gaps(rng, BLOCK))
            now = float(times[-1])
            yield _drawn(times[times < self.duration], self.prompt, self.output, rng)

    def thinned(self, share: float) -> Arrivals | None:
        return replace(self, rate=self.rate * share) if self.cv == 1 else None

    def _gaps(self, rng: Generator, count: int) -> Floats:
        if self.cv == 0:
            return np.full(count, 1 / self.rate)
        return rng.gamma(self.cv**-2, self.cv**2 / self.rate, count)


@dataclass(frozen=True, slots=True)
class Diurnal:
    """A rate that follows the time: a line from point to point, round and round.

    rates: requests per second at equal distances, the first at 0;  period: seconds, of all of them
    cv: of the gaps, as in `Renewal`, on a clock that runs as fast as requests come (Cox and Lewis, 1966)
    """

    rates: Sequence[float]
    prompt: Drawn
    output: Drawn
    duration: float
    cv: float = 1.0
    period: float = _DAY

    def __post_init__(self) -> None:
        if len(self.rates) == 0 or min(self.rates) < 0 or not 0 < max(self.rates) < math.inf:
            raise SpecbenchError("a course of the day needs rates of requests per second, none below 0, one above.")

    def rate_at(self, times: Floats) -> Floats:
        around = np.append(self.rates, self.rates[0])
        return np.asarray(np.interp(times % self.period, np.linspace(0, self.period, len(around)), around))

    def blocks(self, rng: Generator) -> Iterator[Traffic]:
        grid = np.linspace(0, self.duration, math.ceil(self.duration / _GRID) + 1)
        rates = self.rate_at(grid)
        expected = np.append(0.0, np.cumsum(np.diff(grid) * (rates[1:] + rates[:-1]) / 2))
        if expected[-1] == 0:
            return
        clock = Renewal(1.0, self.prompt, self.output, float(expected[-1]), self.cv)
        for block in clock.blocks(rng):
            yield replace(block, arrival=np.interp(block.arrival, expected, grid))

    def thinned(self, share: float) -> Arrivals | None:
        return replace(self, rates=[share * rate for rate in self.rates]) if self.cv == 1 else None


@dataclass(frozen=True, slots=True)
class Replayed:
    """Recorded traffic, as it was. duration: seconds from the first arrival; by default a mean gap after the last"""

    traffic: Traffic
    duration: float = 0.0

    def __post_init__(self) -> None:
        if len(self.traffic) == 0:
            raise SpecbenchError("the traffic holds no request.")
        if self.duration == 0:
            last = float(self.traffic.arrival[-1])
            object.__setattr__(self, "duration", last * (1 + 1 / max(1, len(self.traffic) - 1)) or 1.0)

    def blocks(self, rng: Generator) -> Iterator[Traffic]:
        for start in range(0, len(self.traffic), BLOCK):
            block = _part(self.traffic, slice(start, start + BLOCK))
            yield _part(block, block.arrival < self.duration)

    def thinned(self, share: float) -> Arrivals | None:
        return None


def arrivals_of(source: Traffic | TrafficSpec, duration: float | None) -> Arrivals:
    """Recorded traffic, or what words say, for so many seconds; by default all of a record, or an hour."""
    if isinstance(source, Traffic):
        return Replayed(source, duration or 0.0)
    seconds = duration or _HOUR
    if source.peak == 1:
        return Renewal(source.rate, source.prompt, source.output, seconds, source.cv)
    rates = source.rate_at(np.arange(0, _DAY, _GRID)).tolist()
    return Diurnal(rates, source.prompt, source.output, seconds, source.cv)


def _drawn(times: Floats, prompt: Drawn, output: Drawn, rng: Generator) -> Traffic:
    return Traffic(times, prompt.draw(rng, len(times)), output.draw(rng, len(times)))


def _part(traffic: Traffic, places: slice | NDArray[np.bool_]) -> Traffic:
    return Traffic(
        traffic.arrival[places],
        traffic.prompt_tokens[places],
        traffic.output_tokens[places],
        None if traffic.session is None else traffic.session[places],
    )
