"""Latency percentiles over the requests of the steady window, in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.analysis.degenerate import degeneracy
from specbench.replay.records import RequestTrace
from specbench.replay.timeline import arrivals, e2e, itl, tpot, ttft
from specbench.replay.window import Window

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Latencies:
    """Values per request (`itl`: per gap between tokens, rule `spread`), seconds, in no particular order.

    itl_chunk, itl_burst: gaps by the two other rules in use (specbench.replay.timeline)
    mean_tpot: Σ (last - first chunk) / Σ (tokens after the first chunk): a mean over tokens, so that long requests
        weigh what they cost; None where no request has a second chunk
    """

    ttft: tuple[float, ...]
    tpot: tuple[float, ...]
    itl: tuple[float, ...]
    itl_chunk: tuple[float, ...]
    itl_burst: tuple[float, ...]
    e2e: tuple[float, ...]
    mean_tpot: float | None


def steady_requests(traces: Iterable[RequestTrace], window: Window | None) -> list[RequestTrace]:
    """The requests that latency is taken from: well ended, not degenerate, and finished within the window.

    Taking those that *finish* in it favours no length; taking those wholly inside would favour short ones. Without a
    window all well ended requests stand in.
    """
    return [
        t
        for t in traces
        if t.error is None and degeneracy(t) is None and (window is None or window.start < t.finished <= window.end)
    ]


def latencies(traces: Sequence[RequestTrace]) -> Latencies:
    """Latencies of some requests; those that a request does not have (one chunk has no TPOT) are left out."""
    streams = [arrivals(t) for t in traces]
    later_tokens = sum(int(tokens[1:].sum()) for _, tokens in streams)
    decode_seconds = sum(float(times[-1] - times[0]) for times, _ in streams if len(times))
    return Latencies(
        ttft=tuple(v for t in traces if (v := ttft(t)) is not None),
        tpot=tuple(v for t in traces if (v := tpot(t)) is not None),
        itl=tuple(gap for t in traces for gap in itl(t).tolist()),
        itl_chunk=tuple(gap for t in traces for gap in itl(t, "chunk").tolist()),
        itl_burst=tuple(gap for t in traces for gap in itl(t, "burst").tolist()),
        e2e=tuple(e2e(t) for t in traces),
        mean_tpot=decode_seconds / later_tokens if later_tokens else None,
    )


def percentile(values: Sequence[float], q: float) -> float | None:
    """The q-th percentile (0-100), linear between order statistics; None of nothing."""
    return float(np.percentile(values, q)) if values else None
