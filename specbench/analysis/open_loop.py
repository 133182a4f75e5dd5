"""What an open loop shows: its throughput is whatever arrives, so that arms differ in latency."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.speedup import Pair
from specbench.analysis.statistics import Interval, replicate_interval
from specbench.replay.records import RequestTrace
from specbench.replay.timeline import e2e


@dataclass(frozen=True, slots=True)
class LatencyRatio:
    """Mean end-to-end latency of the baseline over the arm's: above 1 the arm is faster.

    interval: 95 % over replicates; None for fewer than two, since requests of one run wait for each other and are no
        independent sample
    """

    value: float
    interval: Interval | None


def latency_ratio(pairs: Sequence[Pair]) -> LatencyRatio | None:
    """Geometric mean over replicates, over the requests that ended well in both arms; None without one.

    In an open loop both arms get the same requests at the same times, so they are paired one by one.
    """
    logs: dict[int, list[float]] = defaultdict(list)
    for arm, baseline in pairs:
        ours, theirs = ({t.index: e2e(t) for t in m.traces if t.error is None} for m in (arm, baseline))
        both = ours.keys() & theirs.keys()
        total, plain = sum(ours[i] for i in both), sum(theirs[i] for i in both)
        if total > 0 and plain > 0:
            logs[arm.replicate].append(math.log(plain / total))
    if not logs:
        return None
    by_replicate = [math.fsum(values) / len(values) for values in logs.values()]
    interval = replicate_interval(by_replicate) if len(by_replicate) > 1 else None
    return LatencyRatio(math.exp(math.fsum(by_replicate) / len(by_replicate)), interval)


def offered_rate(traces: Sequence[RequestTrace]) -> float | None:
    """Requests per second as they were due; None for fewer than two."""
    due = [t.scheduled for t in traces]
    span = max(due) - min(due) if due else 0.0
    return (len(due) - 1) / span if span > 0 else None


def ended_rate(traces: Sequence[RequestTrace]) -> float | None:
    """Requests per second as they ended: what a server that is too slow falls short by. None for fewer than two.

    Gaps over their time, as in `offered_rate`; a late first end makes nothing faster than it was offered.
    """
    if len(traces) < 2:
        return None
    due, ends = [t.scheduled for t in traces], [t.finished for t in traces]
    seconds = max(max(due) - min(due), max(ends) - min(ends))
    return (len(traces) - 1) / seconds if seconds > 0 else None


def completed_rate(traces: Sequence[RequestTrace]) -> float | None:
    """The share of `ended_rate` that ended well."""
    rate = ended_rate(traces)
    return None if rate is None else rate * sum(t.error is None for t in traces) / len(traces)


def send_lag(traces: Sequence[RequestTrace], q: float) -> float | None:
    """Percentile of how much later than due requests left the client (connecting is part of it), seconds."""
    lags = [t.sent - t.scheduled for t in traces]
    return float(np.percentile(lags, q)) if lags else None
