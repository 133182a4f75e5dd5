"""Latencies of one request, from the times at which its tokens arrived. Seconds; None where a request has no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from specbench.replay.records import RequestTrace

ItlRule = Literal["spread", "chunk", "burst"]


def arrivals(trace: RequestTrace) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Times at which tokens arrived, strictly increasing, and how many came at each: two arrays of equal length.

    Chunks that one read brought in have one time, so they are one arrival.
    """
    times, at = np.unique(np.asarray(trace.chunk_times, dtype=np.float64), return_inverse=True)
    tokens = np.zeros(len(times), dtype=np.int64)
    np.add.at(tokens, at, np.asarray(trace.chunk_tokens, dtype=np.int64))
    return times, tokens


def ttft(trace: RequestTrace) -> float | None:
    """Time to the first token, from when the request was due."""
    return trace.chunk_times[0] - trace.scheduled if trace.chunk_times else None


def e2e(trace: RequestTrace) -> float:
    """The whole request, from when it was due to the end of its stream."""
    return trace.finished - trace.scheduled


def tpot(trace: RequestTrace) -> float | None:
    """Time per output token: (t_last − t_first) / (N − m), where m of the N tokens came with the first arrival.

    None where all tokens came at once.
    """
    times, tokens = arrivals(trace)
    if len(times) < 2:
        return None
    return float((times[-1] - times[0]) / tokens[1:].sum())


def itl(trace: RequestTrace, rule: ItlRule = "spread") -> NDArray[np.float64]:
    """Gaps between tokens after the first arrival, by a named rule; their sum is t_last − t_first under each.

    spread: a gap is shared evenly by the tokens that it brought (their mean is the TPOT)
    chunk:  one gap per streamed chunk, whatever it holds: what clients that take chunks for tokens show
    burst:  the first token of an arrival carries the whole gap, the others 0: what a reader sees
    """
    if rule == "chunk":
        return np.diff(np.asarray(trace.chunk_times, dtype=np.float64))
    times, tokens = arrivals(trace)
    gaps, sizes = np.diff(times), tokens[1:]
    if rule == "spread":
        return np.repeat(gaps / sizes, sizes)
    bursts = np.zeros(sizes.sum())
    bursts[np.cumsum(sizes) - sizes] = gaps
    return bursts


def chunk_sizes(traces: Iterable[RequestTrace]) -> dict[int, int]:
    """Histogram of tokens per streamed chunk: size to count, in order of size."""
    sizes = Counter(size for trace in traces for size in trace.chunk_tokens)
    return dict(sorted(sizes.items()))
