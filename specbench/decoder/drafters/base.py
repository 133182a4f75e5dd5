"""What the engine knows of a drafter: it is told of each prompt, proposes tokens, and learns what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import SequenceState
from specbench.decoder.tree import Tree
from specbench.decoder.tree_shape import TreeShape


@dataclass(frozen=True, slots=True)
class Draft:
    """Proposals for one step.

    tokens: [B, g] int64, -1 = none from there on; g is the longest proposal of the batch, at most gamma, maybe 0
    probs:  [B, g, V] the distributions they were drawn from; None where no chance was involved, or where verification
            is coupled and asks for none
    tree:   where each token hangs, in a draft that branches: `tokens` is then [B, N], one per node, -1 where a row has
            none; it was grown without chance, and `probs` is None. None for a chain
    ready:  of each row that may draft, in order, whether its draft had been prepared for the outcome that came, None
            where none was prepared (`Preparing`); () of other drafters
    """

    tokens: Tensor
    probs: Tensor | None = None
    tree: Tree | None = None
    ready: tuple[bool | None, ...] = ()

    @classmethod
    def of(cls, proposals: Sequence[Sequence[int]], device: torch.device) -> Draft:
        """One list of tokens per row, of any lengths."""
        width = max(map(len, proposals), default=0)
        padded = [[*row, *[-1] * (width - len(row))] for row in proposals]
        return cls(torch.tensor(padded, dtype=torch.int64, device=device).view(len(proposals), width))

    @classmethod
    def chain(cls, tokens: Sequence[Tensor], probs: Sequence[Tensor], limits: Sequence[int] | Tensor) -> Draft:
        """Token by token, each row up to its limit. tokens: [B, 1] each · probs: [B, 1, V] each, or none"""
        drafted = torch.cat([*tokens], 1)
        at, most = torch.arange(len(tokens), device=drafted.device), torch.as_tensor(limits, device=drafted.device)
        return cls(drafted.masked_fill_(at >= most[:, None], -1), torch.cat([*probs], 1) if probs else None)

    @classmethod
    def none(cls, batch: Batch) -> Draft:
        return cls(torch.empty(batch.size, 0, dtype=torch.int64, device=batch.device))

    @property
    def width(self) -> int:
        return self.tokens.shape[1]

    def lengths(self) -> Tensor:
        """[B] tokens proposed one after another: of a tree how deep it is, whatever its breadth."""
        drafted = self.tokens >= 0
        return drafted.sum(1) if self.tree is None else (self.tree.depths[:, 1:] * drafted).amax(1)


class Drafter(Protocol):
    """A method of speculation. It keeps what it must remember of a row from `prefill` to `release`.

    name:               the method's, as on the command line
    needs_hidden:       the target's layers whose inputs it wants (Hugging Face's `hidden_states[i]`)
    kv_bytes_per_token: what its own cache costs
    weights_bytes:      what its own weights cost
    """

    name: str
    needs_hidden: tuple[int, ...]
    kv_bytes_per_token: int
    weights_bytes: int

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        """A request enters `row` with its prompt. hidden [1, prompt length, taps, hidden_size]"""

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        """Draft at most limits[b] tokens (0..gamma) for each row; at least one limit is above 0."""

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        """The target has run over each row's newest token and its draft, and kept accepted[b] drafted tokens.

        Called before the tokens enter `batch`'s sequences, and in steps without a draft too.
        hidden [B, w, taps, hidden_size], of the newest token and the draft
        """

    def release(self, row: int) -> None:
        """The request of `row` is done, or was not admitted: `prefill` may have failed, or never been reached."""


@runtime_checkable
class Preparing(Protocol):
    """A drafter that works on next drafts without waiting for the verdict on the present one: a second device could do
    so while the target verifies."""

    def prepare(self, batch: Batch, draft: Draft) -> None:
        """Called between `propose` and the verification of what it gave, whose outcome it cannot know."""


@dataclass(frozen=True, slots=True)
class DrafterContext:
    """What a drafter is made for: the target, and where its own weights are, if it has any.

    cache: the target's, whose entries a drafter may overwrite from each row's newest token on
    gamma: tokens of a draft at most
    stop_below: a draft ends after a token to which the drafter gave less than this; None for drafts of full length
    tree: how its drafts branch; None for chains
    cached_requests: earlier responses that suffix decoding may draft from
    """

    target: Llama
    target_directory: Path
    directory: Path | None
    cache: KVCache
    gamma: int
    stop_below: float | None = None
    tree: TreeShape | None = None
    cached_requests: int = 0

    @property
    def rows(self) -> int:
        return self.cache.positions.shape[0]

    @property
    def slots(self) -> int:
        return self.cache.slots
