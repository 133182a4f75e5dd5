"""Arrival processes of an open loop: when each request is due, whatever the server makes of the others."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specbench.paths import expand_home
from specbench.workloads.arrival_trace import read_arrival_trace

FORMS = "poisson, gamma:CV (as in gamma:2), constant or trace:FILE"


@dataclass(frozen=True, slots=True)
class Arrival:
    """How requests arrive.

    kind:  `poisson` (independent users), `gamma` (gaps of a given coefficient of variation: burstier above 1, more even
        below), `constant`, or `trace` (recorded)
    cv:    standard deviation of the gaps over their mean, for `gamma`
    trace: file of recorded arrivals, for `trace`
    """

    kind: Literal["poisson", "gamma", "constant", "trace"]
    cv: float = 1.0
    trace: Path | None = None


def parse_arrival(written: str) -> Arrival:
    """`poisson`, `gamma:CV`, `constant` or `trace:FILE`. Raises ValueError for anything else."""
    kind, _, rest = written.partition(":")
    match kind, rest:
        case ("poisson", "") | ("constant", ""):
            return Arrival("poisson" if kind == "poisson" else "constant")
        case "trace", file if file:
            return Arrival("trace", trace=expand_home(Path(file)))
        case "gamma", number if number:
            cv = float(number)
            if not 0 < cv < float("inf"):
                raise ValueError(f"the coefficient of variation in {written} must be above 0")
            return Arrival("gamma", cv=cv)
    raise ValueError(f"expected {FORMS}")


def arrival_offsets(arrival: Arrival, count: int, rate: float | None, seed: int) -> NDArray[np.float64]:
    """Seconds from the first request to each, [count], not decreasing; the first is 0.

    rate: requests per second; None keeps a trace's own times (the others need one)

    Drawn gaps are scaled so that `count` requests come at exactly `rate`. Of a Poisson process that is no distortion:
    given how many arrivals there were in a time, exponential gaps over their sum are how they lie in it (uniform order
    statistics; Ross, Introduction to Probability Models, section 5.3). The same seed gives the same gaps at every rate,
    so arms and rates differ in nothing else. A trace is used from its beginning, and again from there when it is
    shorter than the run.
    """
    if count < 2:
        return np.zeros(count)
    gaps = _gaps(arrival, count - 1, seed)
    if rate is not None:
        gaps = gaps * ((count - 1) / (rate * gaps.sum()))
    return np.concatenate(([0.0], np.cumsum(gaps)))


def trace_rate(path: Path) -> float:
    """Mean requests per second of a recorded trace."""
    times = read_arrival_trace(path)
    return float((len(times) - 1) / times[-1])


def _gaps(arrival: Arrival, count: int, seed: int) -> NDArray[np.float64]:
    random = np.random.default_rng(seed % 2**64)
    match arrival.kind:
        case "constant":
            return np.ones(count)
        case "poisson":
            return random.exponential(size=count)
        case "gamma":
            # shape 1/cv² and mean 1; gaps so small that all of them round to 0 would have no rate
            return np.maximum(random.gamma(1 / arrival.cv**2, arrival.cv**2, size=count), np.finfo(float).tiny)
        case "trace":
            assert arrival.trace is not None
            recorded = np.diff(read_arrival_trace(arrival.trace))
            # Between its end and its beginning a trace that is used again has a gap of mean length.
            cycle = np.append(recorded, recorded.mean())
            return np.resize(cycle, count)
