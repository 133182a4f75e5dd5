"""The static key-value cache: every row (a place in the batch) owns `slots` entries for its whole life.

An entry's *slot* is where it lives within its row; its *position* is its place in the text, which turns its key and
decides who may see it: a query sees the keys whose position is at most its own. Nothing is ever rolled back. Entries of
rejected tokens lie at positions after the newest token, where no query sees them until a later step has overwritten
them. Chains put position p into slot p. Trees, whose siblings share a position, will need slots of their own and an
ancestor mask on top.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoder.config import ModelConfig

EMPTY = 2**62
"""The position of a slot that holds nothing: after every query."""

_ROUND = 16
"""Attention reads whole groups of slots, so that vector instructions have no remainder to deal with."""


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

    def at(self, rows: slice, slots: Tensor, positions: Tensor, used: int) -> CacheView:
        """Where one forward pass writes and what it sees.

        rows: a contiguous range of B rows · slots, positions [B, w] int64: where each new entry goes, and its place in
        the text · used: no row of these has an entry beyond this many slots, the new ones included
        """
        used = min(math.ceil(used / _ROUND) * _ROUND, self.slots)
        held = self.positions[rows].scatter_(1, slots, positions)
        hidden = held[:, None, :used] > positions[:, :, None]
        # [B, w, used] -> [B, 1, w * group, used]: the query heads that share a key-value head become rows.
        mask = torch.zeros(hidden.shape, dtype=self.entries.dtype, device=hidden.device).masked_fill_(hidden, -math.inf)
        mask = mask.repeat_interleave(self._group, 1).unsqueeze(1)
        first = torch.arange(slots.shape[0], device=slots.device) * self.slots
        return CacheView(self.entries[:, rows], positions, (slots + first[:, None]).flatten(), mask, used)


@dataclass(frozen=True, slots=True)
class CacheView:
    """One forward pass's window on the cache.

    entries [layers, B, slots, 2, kv_heads, head_dim] · positions [B, w] · mask [B, 1, w * group, used], 0 or -inf
    """

    entries: Tensor
    positions: Tensor
    # [B * w]: slots counted through all B rows
    _flat_slots: Tensor
    mask: Tensor
    used: int

    def write(self, layer: int, keys_values: Tensor) -> None:
        """keys_values [B * w, 2 * kv_heads * head_dim]: turned keys, then values, of the new entries"""
        self.entries[layer].flatten(3).flatten(0, 1).flatten(1).index_copy_(0, self._flat_slots, keys_values)

    def keys(self, layer: int) -> Tensor:
        """[B, kv_heads, used, head_dim]"""
        return self.entries[layer, :, : self.used, 0].transpose(1, 2)

    def values(self, layer: int) -> Tensor:
        """[B, kv_heads, used, head_dim]"""
        return self.entries[layer, :, : self.used, 1].transpose(1, 2)
