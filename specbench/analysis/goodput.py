"""Goodput: the requests per second that met a service level objective (SLO)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specbench.analysis.latency import Latencies, percentile
from specbench.replay.records import RequestTrace
from specbench.replay.timeline import e2e, tpot, ttft
from specbench.replay.window import Window

_OF_REQUEST: Mapping[str, Callable[[RequestTrace], float | None]] = {"ttft": ttft, "tpot": tpot, "e2e": e2e}


@dataclass(frozen=True, slots=True)
class Slo:
    """What users were promised.

    bounds: seconds by metric and percentile: {("ttft", 95): 0.5} says that 95 % of requests see their first token
        within half a second
    """

    bounds: Mapping[tuple[str, int], float] = field(default_factory=dict)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Slo:
        """From a sweep's `slo`, {"ttft_p95": 0.5}, which its configuration has checked."""
        pairs = ((name.partition("_p"), seconds) for name, seconds in (config.get("slo") or {}).items())
        return cls({(metric, int(q)): float(seconds) for (metric, _, q), seconds in pairs})

    @property
    def limits(self) -> dict[str, float]:
        """Seconds of a well served request, by metric: of several percentiles the loosest bounds a single request."""
        limits: dict[str, float] = {}
        for (metric, _), bound in self.bounds.items():
            limits[metric] = max(bound, limits.get(metric, 0.0))
        return limits

    def meets(self, trace: RequestTrace) -> bool:
        """Whether a request was well served: it did not fail, and each of its latencies is within the metric's bound.

        A request without a TPOT (all its tokens came at once) kept anyone waiting for none.
        """
        if trace.error is not None:
            return False
        values = ((_OF_REQUEST[metric](trace), limit) for metric, limit in self.limits.items())
        return all(value is None or value <= limit for value, limit in values)

    def met_by(self, latency: Latencies) -> bool | None:
        """Whether every percentile keeps its bound; None without an SLO, or without a request to judge by."""
        measured = [
            (percentile(getattr(latency, metric), q), bound) for (metric, q), bound in sorted(self.bounds.items())
        ]
        if not measured or any(value is None for value, _ in measured):
            return None
        return all(value is not None and value <= bound for value, bound in measured)


NO_SLO = Slo()


@dataclass(frozen=True, slots=True)
class Goodput:
    """requests_per_s: well served requests per second;  share: of all requests that ended in that time, 0..1"""

    requests_per_s: float
    share: float


def goodput(traces: Sequence[RequestTrace], window: Window | None, slo: Slo) -> Goodput | None:
    """Goodput of one measurement: in its steady window, or over all of it (first due to last end) where it has none.

    Every request counts, as in throughput: a failed one as badly served, a degenerate one by its latency. None without
    an SLO or a request.
    """
    if not slo.bounds or not traces:
        return None
    if window is None:
        start, end = min(t.scheduled for t in traces), max(t.finished for t in traces)
        ended = list(traces)
    else:
        start, end = window.start, window.end
        ended = [t for t in traces if start < t.finished <= end]
    if not ended or end <= start:
        return None
    good = sum(slo.meets(t) for t in ended)
    return Goodput(good / (end - start), good / len(ended))
