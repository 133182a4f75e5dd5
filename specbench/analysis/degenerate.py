"""Degenerate outputs: a model caught in a loop accepts every draft and looks fast, so such requests are told apart.

What is left out where: degenerate requests are left out of acceptance and of per-request latency, and of the bootstrap
of `speedup_without_degenerate`; throughput, speedup, cost and equivalence count every request, because a closed loop's
tokens per second cannot be divided among batch mates after the fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from specbench.replay.records import RequestTrace

Degeneracy = Literal["loop", "empty"]

LONGEST_PERIOD = 64
LOOSE_END = 4
"""Tokens behind a loop that text cut by a limit may have: a broken word in pieces, white space, an end token."""

FEWEST_REPEATS = 4
SHORTEST_LOOP = 24
"""A tail counts as a loop when one n-gram of at most `LONGEST_PERIOD` tokens fills it `FEWEST_REPEATS` times or more,
over `SHORTEST_LOOP` tokens or more: rulers, table rows and "ha ha ha" are shorter than that."""


def degeneracy(trace: RequestTrace) -> Degeneracy | None:
    """What is wrong with the output of a request that did not fail; None if nothing is.

    An output that the token limit cut off is no less real: `was_truncated` says so, nothing leaves it out.
    """
    if trace.error is not None:
        return None
    if not trace.output_tokens or not trace.text.strip():
        return "empty"
    # Without ids a word stands for a token: loops repeat both.
    return "loop" if ends_in_loop(trace.token_ids if trace.token_ids is not None else trace.text.split()) else None


def was_truncated(trace: RequestTrace) -> bool:
    """Whether the token limit ended the request."""
    return trace.finish_reason == "length"


def ends_in_loop(tokens: Sequence[int] | Sequence[str]) -> bool:
    """Whether the tail of a sequence is one n-gram over and over (the last repeat may be broken off)."""
    for period in range(1, min(LONGEST_PERIOD, len(tokens) // FEWEST_REPEATS) + 1):
        needed = max(SHORTEST_LOOP, FEWEST_REPEATS * period)
        # The last token alone rules most periods out; slices are compared for the rest.
        if len(tokens) >= needed and tokens[-1] == tokens[-1 - period]:
            tail = tokens[-needed:]
            if tail[period:] == tail[:-period]:
                return True
    return False


def was_cut_in_a_loop(tokens: Sequence[int]) -> bool:
    """`ends_in_loop` for tokens made of text, whose last word may be broken: up to `LOOSE_END` tokens are ignored."""
    return any(ends_in_loop(tokens[: len(tokens) - ignored]) for ignored in range(LOOSE_END + 1))
