"""The target drafts for itself, without some of its attention and MLP sublayers (SWIFT, Xia et al., ICLR 2025)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.drafters.chain import Chain
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import SequenceState
from specbench.decoder.skip_search import WINDOW, SkipSearch


class LayerSkip:
    """No weights and no cache of its own: drafting writes the target's entries of tokens that verification enters anew.

    While the search goes on, each step first judges one set of sublayers, with a pass of the thinned target over the
    last 32 tokens that it emitted for one request. One set serves all requests; what it learned from one stays for the
    next.
    """

    name = "layer_skip"
    needs_hidden: tuple[int, ...] = ()
    kv_bytes_per_token = 0
    weights_bytes = 0

    def __init__(self, target: Llama, cache: KVCache, stop_below: float | None = None) -> None:
        self._target, self._cache = target, cache
        self._chain = Chain(cache, target.config.vocab_size, stop_below)
        self.search = SkipSearch(target.config.num_layers)
        self._thinned = target.without(self.search.best)

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        pass

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        if self.search.goes_on:
            self._try_one(batch)
        return self._chain.draft(self._thinned, batch, *batch.newest(1), limits)

    def _try_one(self, batch: Batch) -> None:
        row, emitted = max(enumerate(map(_emitted, batch.sequences)), key=lambda pair: pair[1])
        sequence = batch.sequences[row]
        if sequence is None or emitted <= WINDOW:
            return
        thinned = self._target.without(self.search.candidate())
        if self.search.judge(self._agreement(thinned, row, sequence.tokens)):
            self._thinned = thinned

    def _agreement(self, model: Llama, row: int, tokens: Sequence[int]) -> float:
        """Share of the last tokens that the model would have said. The row's entries are afterwards what they were."""
        end = len(tokens) - 1  # where the newest token will be entered
        start = end - WINDOW
        known = torch.tensor([tokens[start:]], dtype=torch.int64, device=model.device)
        at = torch.arange(start, end, device=model.device)[None]
        entries = self._cache.entries[:, row, start:end]
        kept = entries.clone()
        view = self._cache.enter(slice(row, row + 1), at, at, used=end)
        said = model.forward(known[:, :-1], view, logits=WINDOW).logits.argmax(-1)
        entries.copy_(kept)
        return (said == known[:, 1:]).float().mean().item()

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        pass

    def release(self, row: int) -> None:
        pass


def _emitted(sequence: SequenceState | None) -> int:
    return 0 if sequence is None else len(sequence.tokens) - len(sequence.request.prompt_ids)


def load(context: DrafterContext) -> LayerSkip:
    """Raises ValueError for a target that has no layers between its first and its last."""
    if context.target.config.num_layers < 3:
        raise ValueError(
            f"method layer_skip leaves out layers between the first and the last, and {context.target_directory} has "
            f"{context.target.config.num_layers} in all. Choose another method."
        )
    return LayerSkip(context.target, context.cache, context.stop_below)
