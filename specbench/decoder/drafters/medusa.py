"""Medusa: one head for each place ahead, all at once from the target's last hidden state (Cai et al., 2024)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.drafters.growth import begin
from specbench.decoder.drafters.unsure import UnsureStop
from specbench.decoder.models.medusa import MedusaHeads
from specbench.decoder.request import SequenceState
from specbench.decoder.tree_shape import TreeShape


class MedusaDrafter:
    """Drafts the likeliest token of every head, for greedy rows and others alike: no chance is involved, so that
    verification takes the drafts for certain (one-hot) and stays exact. It has no cache and never lags.

    The heads do not see each other's choices: a chain of them is the best single path, a tree covers more of them
    (`candidates`).
    """

    name = "medusa"
    kv_bytes_per_token = 0

    def __init__(
        self, heads: MedusaHeads, rows: int, stop_below: float | None = None, tree: TreeShape | None = None
    ) -> None:
        self.heads, self._stop_below, self._tree = heads, stop_below, tree
        config = heads.target_config
        # [rows, h]: what the target's own head read last, of each row
        self._hidden = torch.zeros(rows, config.hidden_size, dtype=heads.dtype, device=heads.device)
        self.needs_hidden = (config.num_layers,)
        self.weights_bytes = heads.weights_bytes

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        assert hidden is not None
        self._hidden[row] = self.heads.fuse(hidden[0, -1])

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        if self._tree is not None:
            return self._branch(self._tree, batch, limits)
        logits = self.logits(batch, max(limits))
        tokens = self._said(logits.argmax(-1))
        places = range(tokens.shape[1])
        if self._stop_below is not None:
            stop = UnsureStop(self._stop_below, limits)
            for place in places:
                of_place = slice(place, place + 1)
                if stop.is_over(place + 1, logits[:, of_place], tokens[:, of_place], self.heads.token_ids):
                    break
            limits = stop.limits
        width = min(len(places), max(limits))
        return Draft.chain(torch.split(tokens[:, :width], 1, 1), (), limits)

    def _branch(self, tree: TreeShape, batch: Batch, limits: Sequence[int]) -> Draft:
        growth, width = begin(tree, batch.size, batch.device), 1
        candidates = self.candidates(batch, max(limits), growth.breadth)
        for tokens, log_probs in zip(*(x.unbind(1) for x in candidates), strict=True):
            # A head says the same after every node.
            same = (x[:, None].expand(-1, width, -1) for x in (tokens, log_probs))
            width = growth.grow(*same).tokens.shape[1]
        return growth.draft(limits)

    def logits(self, batch: Batch, count: int) -> Tensor:
        """Of the first `count` heads, or of all where there are fewer: [B, heads, V_d]"""
        return self.heads.logits(self._hidden[: batch.size], min(count, len(self.heads.blocks)))

    def candidates(self, batch: Batch, count: int, k: int) -> tuple[Tensor, Tensor]:
        """What a tree is made of: the k likeliest tokens of each of the first `count` heads (all that they say, where
        that is less), and the logarithms of their probabilities, both [B, heads, k], the likeliest first."""
        logits = self.logits(batch, count)
        best = logits.float().log_softmax(-1).topk(min(k, logits.shape[-1]), -1)
        return self._said(best.indices), best.values

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        assert hidden is not None
        last = torch.tensor(accepted, dtype=torch.int64, device=hidden.device)
        self._hidden[: batch.size] = self.heads.fuse(hidden[torch.arange(batch.size, device=hidden.device), last])

    def release(self, row: int) -> None:
        pass

    def _said(self, places: Tensor) -> Tensor:
        return places if self.heads.token_ids is None else self.heads.token_ids[places]


def load(context: DrafterContext) -> MedusaDrafter:
    """Raises ValueError where there is no directory, or the heads in it were made for another target."""
    if context.directory is None:
        raise ValueError("method medusa needs the directory of Medusa heads.")
    heads = MedusaHeads.from_directory(context.directory, context.target)
    return MedusaDrafter(heads, context.rows, context.stop_below, context.tree)
