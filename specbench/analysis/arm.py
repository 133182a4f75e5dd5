"""An arm of a comparison: a cell with all its measurements, before any figure is made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from specbench.analysis.acceptance import PooledAcceptance, from_counters
from specbench.analysis.degenerate import degeneracy
from specbench.analysis.latency import Latencies, latencies, steady_requests
from specbench.analysis.throughput import Throughput, throughput
from specbench.replay.records import RequestTrace
from specbench.store.measurement import Cell, Measurement


@dataclass(frozen=True)
class Arm:
    """A cell with all its measurements, and per well ended measurement its throughput (by id)."""

    cell: Cell
    measurements: tuple[Measurement, ...]
    throughputs: Mapping[str, Throughput]

    @classmethod
    def of(cls, cell: Cell, measurements: Iterable[Measurement]) -> Arm:
        taken = tuple(measurements)
        return cls(cell, taken, {m.id: throughput(m) for m in taken if m.status == "ok"})

    @property
    def ok(self) -> list[Measurement]:
        return [m for m in self.measurements if m.status == "ok"]

    @property
    def traces(self) -> list[RequestTrace]:
        return [t for m in self.ok for t in m.traces]

    def sound_traces(self) -> list[RequestTrace]:
        """Requests that acceptance is taken from: neither failed nor degenerate."""
        return [t for t in self.traces if t.error is None and degeneracy(t) is None]

    @cached_property
    def latencies(self) -> Latencies:
        """Of the requests in steady state. A baseline's are asked for by every arm beside it."""
        return latencies([t for m in self.ok for t in steady_requests(m.traces, self.throughputs[m.id].window)])

    def counters(self) -> PooledAcceptance | None:
        """The engine's own counts; None unless every measurement has them, or sums would not be comparable."""
        counts = [m.counters.acceptance if m.counters else None for m in self.ok]
        return from_counters([c for c in counts if c is not None]) if None not in counts else None

    def phase_seconds(self) -> dict[str, float]:
        """Seconds by phase, summed; empty unless every measurement has them."""
        phases = [m.counters.phase_seconds if m.counters else None for m in self.ok]
        if None in phases:
            return {}
        total: dict[str, float] = {}
        for seconds in phases:
            for phase, value in (seconds or {}).items():
                total[phase] = total.get(phase, 0.0) + value
        return total


@dataclass(frozen=True, slots=True)
class LaunchSettings:
    """What a launch's server said of itself, as far as a report shows it."""

    kv_capacity_tokens: int | None = None
    differences: tuple[str, ...] = ()
    lossy: tuple[str, ...] = ()
    contaminated: tuple[str, ...] = ()
