"""Entering a prompt into one row of a cache."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specbench.decoder.cache import KVCache
from specbench.decoder.models.llama import Forward, Llama

CHUNK = 512
"""Tokens per forward pass: bounds the memory of attention scores, and skips most of what causality masks anyway."""


def prefill(
    model: Llama, cache: KVCache, row: int, tokens: Sequence[int], logits: int, taps: Sequence[int] = ()
) -> Forward:
    """Clear the row and run a prompt (not empty) through the model.

    logits: 1 for those of the last token ([1, 1, V]), 0 for none ([1, 0, V]) · taps: as in `Llama.forward`
    """
    cache.clear(row)
    hidden = []
    for start in range(0, len(tokens), CHUNK):
        chunk = torch.tensor([tokens[start : start + CHUNK]], dtype=torch.int64, device=model.device)
        end = start + chunk.shape[1]
        positions = torch.arange(start, end, device=model.device)[None]
        view = cache.enter(slice(row, row + 1), positions, positions, used=end)
        # No graph: there would be one for every row and length.
        forward = model.forward(chunk, view, logits if end == len(tokens) else 0, taps, recurs=False)
        hidden.append(forward.hidden)
    taken = [h for h in hidden if h is not None]
    return Forward(forward.logits, torch.cat(taken, 1) if taken else None)
