"""A smaller model of the same family and vocabulary drafts token by token (Leviathan et al., 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.drafters.choose import choose
from specbench.decoder.drafters.unsure import UnsureStop
from specbench.decoder.models.llama import Llama
from specbench.decoder.models.prefill import CHUNK, prefill
from specbench.decoder.request import SequenceState


class DraftModel:
    """Drafts greedily for greedy rows, and for others samples from its own distribution, warped as the target's is.

    A model directory may hold a head for a part of the vocabulary (`d2t`, as EAGLE-3 heads have): a small model reads
    little besides its head.

    The cache follows the target's rules. It lags by one token after a full acceptance (the last drafted token never
    went through it), by more where steps had no draft, so each draft begins with a pass over all that is unseen.
    """

    name = "draft_model"
    needs_hidden: tuple[int, ...] = ()

    def __init__(self, model: Llama, rows: int, slots: int, stop_below: float | None = None) -> None:
        self.model, self._stop_below = model, stop_below
        self._cache = KVCache(model.config, rows, slots, model.dtype, model.device)
        self._seen = [0] * rows
        self._drafted_through = 0
        self.kv_bytes_per_token = self._cache.bytes_per_token
        self.weights_bytes = model.weights_bytes

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        prefill(self.model, self._cache, row, sequence.tokens, logits=0)
        self._seen[row] = len(sequence.tokens)

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        lengths = batch.lengths()
        live = [row for row, sequence in enumerate(batch.sequences) if sequence is not None]
        unseen = max(lengths[row] - self._seen[row] for row in live)
        tokens, positions = (torch.tensor(x, dtype=torch.int64, device=batch.device) for x in batch.newest(unseen))
        *earlier, (tokens, positions) = zip(*(torch.split(x, CHUNK, 1) for x in (tokens, positions)), strict=True)
        for missed, at in earlier:  # after a long time without a draft
            self.model.forward(missed, self._cache.at(slice(0, batch.size), at, at, used=max(lengths)), logits=0)
        stop = None if self._stop_below is None else UnsureStop(self._stop_below, limits)
        drafted, probs = [], []
        for step in range(max(limits)):
            view = self._cache.at(slice(0, batch.size), positions, positions, used=max(lengths) + step)
            logits = self.model.forward(tokens, view, logits=1).logits
            positions = positions[:, -1:] + 1
            tokens, q = choose(batch, logits, positions, self.model.config.vocab_size, self.model.token_ids)
            if q is not None:
                probs.append(q)
            drafted.append(tokens)
            if stop is not None and stop.is_over(step + 1, logits, tokens, self.model.token_ids):
                break
        for row in live:
            self._seen[row] = lengths[row]
        self._drafted_through = len(drafted) - 1
        return Draft.chain(drafted, probs, limits if stop is None else stop.limits)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        for row, kept in enumerate(accepted):
            self._seen[row] += min(kept, self._drafted_through)

    def release(self, row: int) -> None:
        self._seen[row] = 0


def load(context: DrafterContext) -> DraftModel:
    """Raises ValueError where there is no directory, or its vocabulary is not the target's."""
    if context.directory is None:
        raise ValueError("method draft_model needs the directory of a draft model.")
    target = context.target
    model = Llama.from_directory(context.directory, target.dtype, target.device, on_kernels=target.on_kernels)
    if model.config.vocab_size != target.config.vocab_size:
        raise ValueError(
            f"the draft model's vocabulary has {model.config.vocab_size} tokens ({context.directory}) and the target's "
            f"{target.config.vocab_size}. Choose a draft model of the target's own family."
        )
    _compare_tokenizers(context.directory, context.target_directory)
    return DraftModel(model, context.rows, context.slots, context.stop_below)


def _compare_tokenizers(draft: Path, target: Path) -> None:
    vocabularies = [_vocabulary(directory) for directory in (draft, target)]
    if None not in vocabularies and vocabularies[0] != vocabularies[1]:
        raise ValueError(
            f"the draft model ({draft}) and the target ({target}) number their tokens differently, so no draft would "
            "mean what it says. Choose a draft model of the target's own family."
        )


def _vocabulary(directory: Path) -> dict[str, int] | None:
    """None for a model without a fast tokenizer's file."""
    path = directory / "tokenizer.json"
    return Tokenizer.from_file(str(path)).get_vocab() if path.exists() else None
