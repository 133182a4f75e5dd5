"""A model that drafts a chain, one token after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft
from specbench.decoder.drafters.choose import choose
from specbench.decoder.drafters.unsure import UnsureStop
from specbench.decoder.models.llama import Llama


@dataclass(frozen=True, slots=True)
class Chain:
    """Drafts greedily for greedy rows, and for others samples from the model's own distribution, warped as the target's
    is.

    vocab_size: the target's · stop_below: a draft ends after a token to which the model gave less; None for full length
    """

    cache: KVCache
    vocab_size: int
    stop_below: float | None = None

    def draft(self, model: Llama, batch: Batch, tokens: Tensor, positions: Tensor, limits: Sequence[int]) -> Draft:
        """tokens, positions [B, w] int64: what the cache does not hold yet of each row, its newest token last"""
        longest = max(batch.lengths())
        stop = None if self.stop_below is None else UnsureStop(self.stop_below, limits)
        drafted, probs = [], []
        for step in range(max(limits)):
            view = self.cache.at(slice(0, batch.size), positions, positions, used=longest + step)
            logits = model.forward(tokens, view, logits=1).logits
            positions = positions[:, -1:] + 1
            tokens, q = choose(batch, logits, positions, self.vocab_size, model.token_ids)
            if q is not None:
                probs.append(q)
            drafted.append(tokens)
            if stop is not None and stop.is_over(step + 1, logits, tokens, model.token_ids):
                break
        return Draft.chain(drafted, probs, limits if stop is None else stop.limits)
