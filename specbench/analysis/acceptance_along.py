"""Acceptance along the output and over the length of the context, from requests whose engine lists every step."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from specbench.acceptance import AcceptanceCounts
from specbench.replay.records import RequestTrace

EDGES = (0, 16, 64, 256, 1_024, 4_096, 16_384, 65_536)
"""Tokens at which a bucket begins; the last is open."""


def acceptance_histogram(counts: AcceptanceCounts) -> tuple[int, ...] | None:
    """Steps by how many drafted tokens they kept, 0 to gamma; None where the engine gives no positions."""
    if counts.by_position is None:
        return None
    at_least = (counts.steps, *counts.by_position)
    return tuple(a - b for a, b in zip(at_least, (*counts.by_position, 0), strict=True))


def by_output_position(traces: Iterable[RequestTrace]) -> Mapping[str, float]:
    """Mean acceptance length of the steps that began at so many output tokens, by bucket (`0-15`, `16-63`, …)."""
    return _lengths((position, accepted) for _, position, accepted in _steps(traces))


def by_context_length(traces: Iterable[RequestTrace]) -> Mapping[str, float]:
    """The same by prompt and output tokens together; requests of an unknown prompt length are left out."""
    return _lengths((prompt + position, accepted) for prompt, position, accepted in _steps(traces) if prompt)


def suspended_share(traces: Iterable[RequestTrace]) -> float | None:
    """Share of steps in which a rule let nothing be drafted; None where gamma stays, or is not told."""
    gammas = [g for t in traces if t.acceptance for g in t.acceptance.per_step_gamma or ()]
    return gammas.count(0) / len(gammas) if gammas else None


def _steps(traces: Iterable[RequestTrace]) -> Iterator[tuple[int | None, int, int]]:
    """Prompt tokens, output tokens before the step, and what it accepted. The prefill has made the first token."""
    for trace in traces:
        a = trace.acceptance
        # Where steps without a draft are left out of the list, the others' positions are not known.
        if a is None or a.per_step_accepted is None or len(a.per_step_accepted) != a.steps:
            continue
        position = 1
        for accepted in a.per_step_accepted:
            yield trace.prompt_tokens, position, accepted
            position += accepted + 1


def _lengths(steps: Iterable[tuple[int, int]]) -> Mapping[str, float]:
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for place, accepted in steps:
        bucket = bisect_right(EDGES, place) - 1
        sums[bucket][0] += 1
        sums[bucket][1] += accepted
    return {_name(bucket): 1 + accepted / count for bucket, (count, accepted) in sorted(sums.items())}


def _name(bucket: int) -> str:
    return f"{EDGES[bucket]}-{EDGES[bucket + 1] - 1}" if bucket + 1 < len(EDGES) else f"{EDGES[bucket]}-"
