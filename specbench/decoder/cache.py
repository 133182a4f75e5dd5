"""The static key-value cache: every row (a place in the batch) owns `slots` entries for its whole life.

An entry's *slot* is where it lives within its row; its *position* is its place in the text, which turns its key and
decides who may see it: a query sees the keys whose position is at most its own. Nothing is ever rolled back. Entries of
rejected tokens lie at positions after the newest token, where no query sees them until a later step has overwritten
them. Chains put position p into slot p. The nodes of a tree at one depth share a position, so
each has a slot of its own behind the newest token, and sees of its tree only its ancestors (`Branches`); the branch
that is kept is then moved to where a chain's entries would be (`keep_branch`), and slot and position agree again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from specbench.decoder.config import ModelConfig

EMPTY = 2**62
"""The position of a slot that holds nothing: after every query."""

_ROUND = 16
"""Attention reads whole groups of slots, so that vector instructions have no remainder to deal with."""


@dataclass(frozen=True, slots=True)
class Branches:
    """What the new entries of a tree see of it; of what lies before it they see everything, by the usual rule.

    slots [B, t] int64, of the tree's entries so far, the new ones included · seen [B, w, t] bool
    """

    slots: Tensor
    seen: Tensor


class KVCache:
    """Keys and values of all layers, keys turned by their position already.

    entries:   [layers, rows, slots, 2, kv_heads, head_dim]; index 3 tells key (0) from value (1)
    positions: [rows, slots] int64, `EMPTY` where nothing is
    """

    def __init__(self, config: ModelConfig, rows: int, slots: int, dtype: torch.dtype, device: torch.device) -> None:
        slots = math.ceil(slots / _ROUND) * _ROUND
        shape = (config.num_layers, rows, slots, 2, config.num_kv_heads, config.head_dim)
        # Zeros, since a masked entry still enters attention's sum with weight 0, and 0 * nan is nan.
        self.entries = torch.zeros(shape, dtype=dtype, device=device)
        self.positions = torch.full((rows, slots), EMPTY, dtype=torch.int64, device=device)
        self._group = config.group

    @property
    def slots(self) -> int:
        return self.positions.shape[1]

    @property
    def bytes_per_token(self) -> int:
        return self.entries[:, 0, 0].nbytes

    def clear(self, row: int) -> None:
        """Forget a row's entries, before its place goes to another request."""
        self.positions[row] = EMPTY

    def enter(
        self, rows: slice, slots: Tensor, positions: Tensor, used: int, branches: Branches | None = None
    ) -> CacheView:
        """Where one forward pass writes and what it sees. Positions are entered now, keys and values by `write`.

        rows: a contiguous range of B rows · slots, positions [B, w] int64: where each new entry goes, and its place in
        the text · used: no row of these has an entry beyond this many slots, the new ones included · branches: for new
        entries of a tree
        """
        used = min(math.ceil(used / _ROUND) * _ROUND, self.slots)
        held = self.positions[rows].scatter_(1, slots, positions)
        first = torch.arange(slots.shape[0], device=slots.device) * self.slots
        flat_slots = (slots + first[:, None]).flatten()
        return CacheView(self.entries[:, rows], positions, flat_slots, held, used, branches, self._group)

    def keep_branch(self, rows: slice, root: Tensor, path: Tensor, width: int) -> None:
        """Of a tree keep one branch: bring its entries to the slots behind the root's, and `as_chain`.

        root [B] int64, the slot of the tree's root, whose nodes lie in the `width` slots behind it · path [B, d] int64:
        how far behind the root each entry of the branch lies, ascending; k + 1 at place k leaves one where it is
        """
        entries, row = self.entries[:, rows], torch.arange(root.shape[0], device=root.device)[:, None]
        places = root[:, None] + torch.arange(1, 1 + path.shape[1], device=root.device)
        entries[:, row, places] = entries[:, row, root[:, None] + path]
        self.as_chain(rows, root, width)

    def as_chain(self, rows: slice, root: Tensor, width: int) -> None:
        """Give the slots of a tree the positions of a chain again: what is not overwritten lies after every query."""
        slots = root[:, None] + torch.arange(1 + width, device=root.device)
        self.positions[rows].scatter_(1, slots, slots)


@dataclass(frozen=True)
class CacheView:
    """One forward pass's window on the cache.

    entries [layers, B, slots, 2, kv_heads, head_dim] · positions [B, w] · flat_slots [B * w], counted through all B
    rows · held [B, slots], the position that each slot holds: the cache's own, so use a view before the next one of the
    same rows is made · used, branches: as in `KVCache.enter` · group: query heads per key-value head
    """

    entries: Tensor
    positions: Tensor
    flat_slots: Tensor
    held: Tensor
    used: int
    branches: Branches | None
    group: int

    @cached_property
    def mask(self) -> Tensor:
        """[B, 1, w * group, used], 0 or -inf: the query heads that share a key-value head are rows.

        Made when it is first asked for: kernels go by positions and need none.
        """
        unseen = self.held[:, None, : self.used] > self.positions[:, :, None]
        if self.branches is not None:
            unseen.scatter_(2, self.branches.slots[:, None].expand_as(self.branches.seen), ~self.branches.seen)
        mask = torch.zeros(unseen.shape, dtype=self.entries.dtype, device=unseen.device).masked_fill_(unseen, -math.inf)
        return mask.repeat_interleave(self.group, 1).unsqueeze(1)

    def write(self, layer: int, keys_values: Tensor) -> None:
        """keys_values [B * w, 2 * kv_heads * head_dim]: turned keys, then values, of the new entries"""
        self.entries[layer].flatten(3).flatten(0, 1).flatten(1).index_copy_(0, self.flat_slots, keys_values)

    def keys(self, layer: int) -> Tensor:
        """[B, kv_heads, used, head_dim]"""
        return self.entries[layer, :, : self.used, 0].transpose(1, 2)

    def values(self, layer: int) -> Tensor:
        """[B, kv_heads, used, head_dim]"""
        return self.entries[layer, :, : self.used, 1].transpose(1, 2)
