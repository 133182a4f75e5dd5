"""Drafters as part of a step that runs on the device as a whole. Prompts enter them in the usual way."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Drafter
from specbench.decoder.drafters.chain import Drawn
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.drafters.features import FeatureDrafter
from specbench.decoder.drafters.none import NoDrafter


class OnDevice:
    """What a step asks of a drafter; this one never drafts.

    width: with how many of a row's newest tokens a draft begins: those that the drafter may not have entered yet
    taps:  as `Drafter.needs_hidden`
    """

    width = 1
    taps: tuple[int, ...] = ()

    def enter(self, row: int) -> None:
        """A request has been prefilled into `row`."""

    def drawn(self, batch: Batch, tokens: Tensor, positions: Tensor, longest: int) -> Iterator[Drawn]:
        """A chain, token after token, without end. tokens, positions [B, width] int64, a row's newest last; a row that
        has fewer to enter repeats the first of them · longest: no row has more tokens"""
        return iter(())

    def keep(self, live: Tensor, at: Tensor, hidden: Tensor | None) -> None:
        """The target has verified a draft, and of what it then says the next draft begins with the newest tokens.

        live [B] bool: rows that go on from here · at [B, width] int64: the verified token that each of those follows ·
        hidden [B, γ+1, taps, hidden_size], of the verified tokens
        """


class _Model(OnDevice):
    """A draft model has entered all of a draft but its last token, so at most two are new to it."""

    width = 2

    def __init__(self, drafter: DraftModel) -> None:
        self._drafter = drafter

    def drawn(self, batch: Batch, tokens: Tensor, positions: Tensor, longest: int) -> Iterator[Drawn]:
        return self._drafter.drawn(batch, tokens, positions, longest)


class _Head(OnDevice):
    """A head enters all that was verified again, with the target's features of the tokens before."""

    def __init__(self, drafter: FeatureDrafter, rows: int, gamma: int) -> None:
        self._drafter, self.width, self.taps = drafter, gamma + 1, drafter.needs_hidden
        head = drafter.head
        shape = (rows, self.width, len(head.config.taps), head.config.target_hidden_size)
        self._features = torch.zeros(shape, dtype=head.dtype, device=head.device)

    def enter(self, row: int) -> None:
        self._features[row] = self._drafter.take(row)

    def drawn(self, batch: Batch, tokens: Tensor, positions: Tensor, longest: int) -> Iterator[Drawn]:
        hidden = self._drafter.head.fuse(self._features[: batch.size])
        # The pair of a token belongs to the position before it; a dead row's only token stays at 0.
        return self._drafter.drawn(batch, tokens, hidden, (positions - 1).clamp_min(0), longest)

    def keep(self, live: Tensor, at: Tensor, hidden: Tensor | None) -> None:
        assert hidden is not None
        own = self._features[: len(at)]
        new = hidden[torch.arange(len(at), device=at.device)[:, None], at]
        own.copy_(new.where(live[:, None, None, None], own))


def on_device(drafter: Drafter, rows: int, gamma: int) -> OnDevice | None:
    """None for a drafter that needs the host (lookups, models of another vocabulary, `Preparing`), or drafts trees."""
    if isinstance(drafter, FeatureDrafter) and drafter.tree is None:
        return _Head(drafter, rows, gamma)
    if isinstance(drafter, DraftModel):
        return _Model(drafter)
    return OnDevice() if isinstance(drafter, NoDrafter) else None
