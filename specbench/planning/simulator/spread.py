"""How much requests differ in what is kept of their drafts, as their streams show it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from specbench.replay.records import RequestTrace
from specbench.replay.timeline import arrivals
from specbench.store.run import RunStore

USUAL = 0.5
"""Standard deviation in logits where it is not known: one request at 0.7 on average has 0.59 to 0.79."""


def kept_by_step(traces: Iterable[RequestTrace], gamma: int) -> list[NDArray[np.int64]]:
    """Per request, drafted tokens that each step kept: a chunk that is neither the first nor the last holds these and
    one token more.
    """
    sizes = (arrivals(t)[1][1:-1] for t in traces if t.error is None)
    return [np.clip(size - 1, 0, gamma) for size in sizes if len(size)]


def spread(kept: Sequence[NDArray[np.int64]]) -> float:
    """By how much more than chance would requests differ in whether a step keeps anything: a standard deviation in
    logits, by moments (analysis of variance, as for intraclass correlation); 0 where chance explains it.
    """
    counts = np.array([len(k) for k in kept], float)
    shares = np.array([np.mean(k > 0) for k in kept])
    if len(kept) < 2:
        return 0.0
    mean = float(counts @ shares / counts.sum())
    chance = mean * (1 - mean)
    beyond = float(counts @ (shares - mean) ** 2) - chance * (len(kept) - 1)
    if beyond <= 0:
        return 0.0
    return math.sqrt(beyond / (counts.sum() - (counts**2).sum() / counts.sum())) / chance


def spread_of_run(store: RunStore, workload: str, method: str) -> float:
    """USUAL where the run has no streams of that arm."""
    kept = [
        k
        for m in store.measurements()
        if m.status == "ok" and (m.cell.workload, m.cell.speculation.name) == (workload, method)
        for k in kept_by_step(m.traces, m.cell.speculation.gamma)
    ]
    return spread(kept) if kept else USUAL
