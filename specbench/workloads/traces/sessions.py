"""Which requests of a trace share the beginning of their prompts, as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import NDArray

COMMON_SHARE, COMMON_COUNT = 0.1, 100
"""A block that more than so many of all requests begin with is a system prompt, and tells no conversation."""


class SessionNumbers:
    """Numbers for session ids, as they come; a request without one is a session of its own."""

    def __init__(self) -> None:
        self._known: dict[Hashable, int] = {}
        self._count = 0

    @property
    def named(self) -> bool:
        """Whether any request had an id."""
        return bool(self._known)

    def of(self, ids: Iterable[Hashable]) -> list[int]:
        return [self._number(id) for id in ids]

    def _number(self, id: Hashable) -> int:
        nothing = id is None or id != id  # NaN is what a table has for nothing
        if not nothing and id in self._known:
            return self._known[id]
        number = self._count
        self._count += 1
        if not nothing:
            self._known[id] = number
        return number


def first_blocks(lists: Iterable[object], width: int) -> NDArray[np.int64]:
    """The first block ids of each prompt, [n, width]; -1 where it has fewer."""
    rows = [[b % 2**63 for b in ids[:width] if isinstance(b, int)] if isinstance(ids, list) else [] for ids in lists]
    return np.array([row + [-1] * (width - len(row)) for row in rows], dtype=np.int64).reshape(-1, width)


def block_sessions(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """A session per request, [n]: its first block that is not a common one (a system prompt's).

    A block's id stands for everything before it too (Mooncake's hashes are chained), so requests with the same block
    have the same prompt up to its end. A request with common blocks only belongs to the last of them; one without any
    block stands alone. blocks: [n, width], -1 = none
    """
    n, width = blocks.shape
    key = np.full(n, -1, dtype=np.int64)
    goes_on = np.ones(n, dtype=bool)
    for depth in range(width):
        column = blocks[:, depth]
        goes_on &= column >= 0
        key[goes_on] = column[goes_on]
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        goes_on &= counts[place] > max(COMMON_SHARE * n, COMMON_COUNT)
    sessions: NDArray[np.int64] = np.unique(key, return_inverse=True)[1].astype(np.int64)
    alone = key < 0
    sessions[alone] = n + np.arange(alone.sum())
    return sessions
