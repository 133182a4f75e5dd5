"""Samples of measurements on one time axis, end to end, and no more of them than a figure can show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from specbench.store.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Span:
    """A measurement with samples, and its place on the axis in seconds."""

    measurement: Measurement
    begin: float
    end: float

    def place(self, time: float) -> float:
        """Of one of its samples."""
        return self.begin + time - self.measurement.telemetry[0].time


def end_to_end(measurements: Iterable[Measurement]) -> Iterator[Span]:
    """Those that have samples: the time between them (launches, warm-up) is not sampled."""
    begin = 0.0
    for m in measurements:
        if m.telemetry:
            end = begin + m.telemetry[-1].time - m.telemetry[0].time
            yield Span(m, begin, end)
            begin = end


def step_for(count: int, most: int) -> int:
    """Every how manieth of so many is shown, so that `most` are shown at most."""
    return max(1, -(-count // most))
