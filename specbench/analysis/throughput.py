"""Output throughput of a measurement, in its steady state and as a whole."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from specbench.replay.window import Window, steady_window, tokens_in
from specbench.store.measurement import Measurement


@dataclass(frozen=True, slots=True)
class Throughput:
    """Output tokens per second of one measurement.

    steady:    tokens in the steady window over its length; None where the measurement is too short for a window
    whole_run: all tokens, first request due to last request done: ramp and drain are in it
    window:    the steady window, None if there is none
    """

    steady: float | None
    whole_run: float | None
    window: Window | None


def throughput(measurement: Measurement) -> Throughput:
    """Throughput of a measurement; every request counts, degenerate and failed ones too: they took their time."""
    traces = measurement.traces
    if not traces:
        return Throughput(None, None, None)
    # An open loop has no slots, so neither refill cycles: it gives what arrives.
    window = None if measurement.cell.is_open_loop else steady_window(traces, measurement.cell.batch_size)
    steady = tokens_in(traces, window) / window.length if window else None
    seconds = max(t.finished for t in traces) - min(t.scheduled for t in traces)
    whole_run = sum(t.output_tokens for t in traces) / seconds if seconds > 0 else None
    # No token at all is no rate to compare with, and has no logarithm.
    return Throughput(steady or None, whole_run or None, window)


def mean_over_replicates(values: Iterable[tuple[int, float | None]]) -> float | None:
    """Geometric mean over replicates of the geometric mean over repeats, from (replicate, value); None without a value.

    Geometric, so that the ratio of two cells' means is the mean of their paired ratios, which is what speedup is.
    """
    by_replicate: dict[int, list[float]] = defaultdict(list)
    for replicate, value in values:
        if value is not None:
            by_replicate[replicate].append(math.log(value))
    if not by_replicate:
        return None
    means = [math.fsum(logs) / len(logs) for logs in by_replicate.values()]
    return math.exp(math.fsum(means) / len(means))
