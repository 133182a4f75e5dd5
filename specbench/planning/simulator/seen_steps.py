"""An engine's steps as its streams show them: each gap between the chunks of a request is one step of its batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from specbench.replay.records import RequestTrace
from specbench.replay.timeline import arrivals

Floats = NDArray[np.float64]


class Steps(NamedTuple):
    """Arrays of one length. A step that several streams show is there for each of them, with a weight of one together.

    seconds, weight, gamma (that was allowed);  sequences: that decoded, and cached: their tokens, together
    prompts, prompt_tokens, attended: read in the same step, of `step_time.prefill_seconds`
    outside: whether the seconds are those from when a request was due to its first token, with no other in the server
    """

    seconds: Floats
    weight: Floats
    gamma: Floats
    sequences: Floats
    cached: Floats
    prompts: Floats
    prompt_tokens: Floats
    attended: Floats
    outside: NDArray[np.bool_]

    @classmethod
    def together(cls, parts: Iterable[Steps]) -> Steps:
        return cls(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class _Stream(NamedTuple):
    trace: RequestTrace
    times: Floats
    tokens: NDArray[np.int64]


def seen_steps(traces: Sequence[RequestTrace], gamma: int) -> Steps:
    """Of one measurement, whose requests all ended well."""
    streams = [_Stream(t, *arrivals(t)) for t in traces if t.error is None and t.chunk_times and t.prompt_tokens]
    first = np.array([s.times[0] for s in streams])
    last = np.array([s.times[-1] for s in streams])
    prompt = np.array([float(s.trace.prompt_tokens or 0) for s in streams])
    rows: list[tuple[float, ...]] = []
    for i, s in enumerate(streams):
        before = np.cumsum(s.tokens) - s.tokens
        for begin, end, own in zip(s.times[:-1], s.times[1:], before[1:], strict=True):
            half = (end - begin) / 2
            # A stream's chunk of the same step comes within half a step of this one's.
            decoding = (first <= begin + half) & (last >= end - half)
            read = (first > begin + half) & (first <= end + half)
            others = decoding & (np.arange(len(streams)) != i)
            so_far = [_tokens_until(streams[j], begin + half) for j in np.flatnonzero(others)]
            cached = prompt[decoding].sum() + own + sum(so_far)
            rows.append(
                (
                    end - begin,
                    1 / decoding.sum(),
                    gamma,
                    decoding.sum(),
                    cached,
                    read.sum(),
                    prompt[read].sum(),
                    (prompt[read] ** 2 / 2).sum(),
                    False,
                )
            )
        due = s.trace.scheduled
        if not np.any((np.delete(first, i) < s.times[0]) & (np.delete(last, i) > due)):
            rows.append((s.times[0] - due, 1.0, gamma, 0, 0, 1, prompt[i], prompt[i] ** 2 / 2, True))
    *amounts, outside = np.array(rows, float).reshape(-1, len(Steps._fields)).T
    seconds, weight, gammas, sequences, cached_tokens, prompts, prompt_tokens, attended = amounts
    return Steps(
        seconds, weight, gammas, sequences, cached_tokens, prompts, prompt_tokens, attended, np.asarray(outside > 0)
    )


def _tokens_until(stream: _Stream, time: float) -> float:
    return float(stream.tokens[: np.searchsorted(stream.times, time, side="right")].sum())
