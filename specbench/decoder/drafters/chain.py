"""A model that drafts a chain, one token after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft
from specbench.decoder.drafters.choose import choose
from specbench.decoder.drafters.unsure import UnsureStop
from specbench.decoder.models.llama import Llama

Drawn = tuple[Tensor, Tensor, Tensor | None]
"""One step of a chain: logits [B, 1, V_d]; of `choose` the tokens [B, 1], and probabilities [B, 1, V] or None."""


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
        drawn = self.drawn(model, batch, tokens, positions, max(batch.lengths()))
        stop = None if self.stop_below is None else UnsureStop(self.stop_below, limits)
        return drafted(islice(drawn, max(limits)), limits, stop, model.token_ids)

    def drawn(self, model: Llama, batch: Batch, tokens: Tensor, positions: Tensor, longest: int) -> Iterator[Drawn]:
        """The same token after token, without end. longest: no row has more tokens"""
        for step in count():
            view = self.cache.enter(slice(0, batch.size), positions, positions, used=longest + step)
            logits = model.forward(tokens, view, logits=1).logits
            positions = positions[:, -1:] + 1
            tokens, q = choose(batch, logits, positions, self.vocab_size, model.token_ids)
            yield logits, tokens, q


def drafted(
    drawn: Iterable[Drawn],
    limits: Sequence[int] | Tensor,
    stop: UnsureStop | None = None,
    token_ids: Tensor | None = None,
) -> Draft:
    """A draft of these steps, each row up to its limit, or to where it stops. token_ids: as for `choose`"""
    chosen, probs = [], []
    for number, (logits, tokens, q) in enumerate(drawn, start=1):
        chosen.append(tokens)
        if q is not None:
            probs.append(q)
        if stop is not None and stop.is_over(number, logits, tokens, token_ids):
            break
    return Draft.chain(chosen, probs, limits if stop is None else stop.limits)
