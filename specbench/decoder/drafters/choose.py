"""The next drafted token from a drafter's logits, over the target's whole vocabulary or a part of it."""

from __future__ import annotations

from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.batch import Batch
from specbench.decoder.sampling import draw, warp


def choose(
    batch: Batch, logits: Tensor, positions: Tensor, vocab_size: int, token_ids: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The likeliest token for greedy rows, a drawn one for others, and the distribution that it was drawn from.

    logits [B, w, V_d], each for a token that follows another text · positions [B, w], the place of the token chosen ·
    token_ids [V_d], the target's token that each logit stands for, None where that is its own number (logits beyond the
    target's vocabulary then mean nothing) -> tokens [B, w], probabilities [B, w, V] or None where verification asks for
    none
    """
    logits = logits if token_ids is not None else logits[..., :vocab_size]
    if batch.warp.all_greedy:
        best = logits.argmax(-1)
        return best if token_ids is None else token_ids[best], None
    q = warp(logits, batch.warp)
    # Noise belongs to the target's tokens, so that coupled verification meets the same numbers.
    exponential = batch.draft_noise(positions, vocab_size)
    chosen = draw(q, exponential if token_ids is None else exponential[..., token_ids])
    tokens = chosen if token_ids is None else token_ids[chosen]
    if batch.draft_stream == noise.TARGET:
        return tokens, None
    return tokens, q if token_ids is None else q.new_zeros(*q.shape[:2], vocab_size).index_copy_(2, token_ids, q)
