"""What an open loop measured at each request rate, in both arms, and what a closed loop would have said of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from specbench.analysis.cell_summary import CellSummary
from specbench.recommend.arrivals import AtRate, at_rate
from specbench.recommend.curves import constant_gamma
from specbench.recommend.draws import Range
from specbench.recommend.evidence import Evidence
from specbench.replay.timeline import e2e
from specbench.store.measurement import Measurement


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """An arm under requests at a rate, beside plain decoding.

    latency_speedup: mean latency without over with
    latency, plain_latency: mean seconds from due to end;  concurrency, plain_concurrency: mean number of requests there
    predicted: by the closed loop; None without one that has this arm
    """

    workload: str
    method: str
    gamma: int
    rate: float
    latency_speedup: Range
    latency: float
    plain_latency: float
    concurrency: float
    plain_concurrency: float
    predicted: AtRate | None


def measured_rates(
    cells: Sequence[CellSummary], measurements: Iterable[Measurement], closed: Evidence | None
) -> tuple[MeasuredRate, ...]:
    """Of every speculative cell of an open loop that has its baseline. closed: evidence of a closed loop, if any"""
    taken: dict[tuple[str, str, int, float | None], list[Measurement]] = defaultdict(list)
    for m in measurements:
        s = m.cell.speculation
        if m.status == "ok" and (s.is_baseline or not s.is_plain):
            taken[m.cell.workload, s.name, s.gamma, m.cell.request_rate].append(m)
    found = []
    for c in cells:
        ours = taken.get((c.workload, c.method, c.gamma, c.request_rate))
        plain = taken.get((c.workload, "none", 0, c.request_rate))
        if not c.is_speculative or c.request_rate is None or c.latency_speedup is None or not (ours and plain):
            continue
        found.append(
            MeasuredRate(
                c.workload,
                c.method,
                c.gamma,
                c.request_rate,
                Range(c.latency_speedup, c.latency_speedup_ci_low, c.latency_speedup_ci_high),
                _latency(ours),
                _latency(plain),
                _concurrency(ours),
                _concurrency(plain),
                _predicted(closed, c) if closed is not None and c.workload in closed.workloads else None,
            )
        )
    return tuple(found)


def _predicted(closed: Evidence, cell: CellSummary) -> AtRate | None:
    arm = constant_gamma(closed, cell.method, cell.gamma) if closed.batch_sizes else None
    return None if arm is None or cell.request_rate is None else at_rate(closed, arm, cell.request_rate)


def _latency(measurements: Iterable[Measurement]) -> float:
    seconds = [e2e(t) for m in measurements for t in m.traces if t.error is None]
    return sum(seconds) / len(seconds) if seconds else 0.0


def _concurrency(measurements: Iterable[Measurement]) -> float:
    """Time-average of requests between due and end, while requests come: the filling is in it, the draining is not."""
    there = total = 0.0
    for m in measurements:
        begin, last = min(t.scheduled for t in m.traces), max(t.scheduled for t in m.traces)
        there += sum(max(0.0, min(t.finished, last) - t.scheduled) for t in m.traces)
        total += last - begin
    return there / total if total else 0.0
