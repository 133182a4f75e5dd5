"""How many tokens each event of a stream carried. Never one per event: under speculation an event carries several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamedChunk:
    """What one event says of its tokens.

    time:      seconds, when its last byte arrived
    token_ids: ids of its tokens, None where the server sends none
    completion_tokens: the usage's count of the request's tokens so far, None where the event has no usage
    text:      decoded text
    has_choice: False for the closing event that carries the usage alone
    """

    time: float
    token_ids: tuple[int, ...] | None
    completion_tokens: int | None
    text: str
    has_choice: bool


class UncountableStream(ValueError):
    """A stream with text but with neither token ids nor usage."""


def tokens_per_chunk(chunks: Sequence[StreamedChunk]) -> list[int]:
    """Token count of every chunk, by the best evidence that the stream holds.

    1. Token ids, where any chunk has them: exact.
    2. Else the usage of chunks that have a choice (continuous usage): the increase since the last one; exact in sum,
       and exact per chunk where every chunk has usage. What only the closing event adds counts there.
    3. Else the closing usage alone: its total is exact, its distribution an estimate. Every chunk with text gets one
       token, the rest is shared in proportion to the length of the text (an event of several tokens is longer).

    Raises UncountableStream where there is text and none of these.
    """
    if any(chunk.token_ids for chunk in chunks):
        return [len(chunk.token_ids or ()) for chunk in chunks]
    totals = [chunk.completion_tokens for chunk in chunks]
    if any(total is not None and chunk.has_choice for chunk, total in zip(chunks, totals, strict=True)):
        return _increases(totals)
    total = max((total for total in totals if total is not None), default=None)
    if total is None:
        if any(chunk.text for chunk in chunks):
            raise UncountableStream("the server sent neither token ids nor usage, so its tokens cannot be counted")
        return [0] * len(chunks)
    return _shared(total, [len(chunk.text) for chunk in chunks])


def _increases(totals: Sequence[int | None]) -> list[int]:
    counts, seen = [], 0
    for total in totals:
        counts.append(max(0, (total or 0) - seen))
        seen += counts[-1]
    return counts


def _shared(total: int, lengths: Sequence[int]) -> list[int]:
    """Whole numbers in proportion to `lengths`, summing to `total`; at least one each where there are enough."""
    carriers = sum(length > 0 for length in lengths)
    if not carriers:
        return [*([0] * (len(lengths) - 1)), total]
    floor = 1 if total >= carriers else 0
    rest, sum_of_lengths = total - floor * carriers, sum(lengths)
    counts, length_so_far, shared_so_far = [], 0, 0
    for length in lengths:
        length_so_far += length
        # Rounding the running sum, not each share, keeps the total.
        share = rest * length_so_far // sum_of_lengths - shared_so_far
        shared_so_far += share
        counts.append(share + (floor if length else 0))
    return counts
