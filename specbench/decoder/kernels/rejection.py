"""Rejection sampling from logits: no probabilities are written down, only sums and winners of blocks of the vocabulary.

Its twin is `verify.rejection` of warped logits; the noise is the same, and so are the tokens, but where two numbers
agree to their last places. Temperature only: top-k and top-p need the whole row.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specbench.decoder import noise, verify
from specbench.decoder.kernels.launch import launch
from specbench.decoder.kernels.random import exponential, key, salt, uniform
from specbench.decoder.kernels.vocabulary import BLOCK, best_of, blocks, softmax_sum
from specbench.decoder.sampling import SamplingParams, Warp, warp
from specbench.decoder.verify import Verified


def rejection(
    logits: Tensor,
    drawn_from: Tensor | None,
    draft: Tensor,
    temperature: Tensor,
    seeds: Tensor,
    positions: Tensor,
    imposed: Tensor | None = None,
    warped: bool = False,
    block: int = BLOCK,
) -> Verified:
    """Exact speculative sampling, as `verify.rejection` defines it.

    logits [B, γ+1, V], contiguous · drawn_from [B, γ, V], contiguous: the logits that each drafted token was drawn from
    at its row's temperature, or where `warped` its probabilities; None = chosen without chance (one-hot) ·
    draft [B, γ] int64, contiguous, -1 = none · temperature [B] float32, 0 is greedy, in the draft too · seeds [B] int64
    · positions [B, γ+1] int64, contiguous, the absolute position of the token that logits[b, i] predict · imposed [B]
    int64, as in `verify`
    """
    batch, gamma = draft.shape
    vocab = logits.shape[2]
    sampled = drawn_from is not None and gamma > 0
    q_rows = drawn_from if drawn_from is not None and sampled else logits
    p = blocks(logits, temperature, block)
    q = blocks(q_rows, temperature, block) if sampled and not warped else p
    span = triton.next_power_of_2(p.count)
    constants = {"GAMMA": gamma, "COUNT": p.count, "SPAN": span, "SAMPLED": sampled, "WARPED": warped}

    accepted, next_token = draft.new_empty(batch), draft.new_empty(batch)
    launch(
        _walk, (batch,), logits, q_rows, p.largest, p.sums, p.tokens, q.largest, q.sums, q.tokens, draft, temperature,
        seeds, positions, accepted if imposed is None else imposed, accepted, vocab,
        GIVEN=imposed is not None, SALT=salt(noise.ACCEPT), warps=1, **constants,
    )  # fmt: skip
    # Of each block: the first of what is left of p to ring, and the first of p itself, for where nothing is left.
    rings = logits.new_empty(2, batch, p.count, dtype=torch.float32)
    winners = logits.new_empty(2, batch, p.count, dtype=torch.int32)
    launch(
        _race, (batch, p.count), logits, q_rows, p.largest, p.sums, p.tokens, q.largest, q.sums, q.tokens, draft,
        temperature, seeds, positions, accepted, rings, winners, vocab, batch * p.count,
        SALT=salt(noise.RESIDUAL), BLOCK=block, warps=8, **constants,
    )  # fmt: skip
    launch(_pick, (batch,), rings, winners, next_token, batch, COUNT=p.count, SPAN=span, warps=1)
    return Verified(accepted, next_token)


def rejection_twin(
    logits: Tensor,
    drawn_from: Tensor | None,
    draft: Tensor,
    temperature: Tensor,
    seeds: Tensor,
    positions: Tensor,
    imposed: Tensor | None = None,
    warped: bool = False,
) -> Verified:
    rows = Warp.stack([SamplingParams(temperature=t) for t in temperature.tolist()], logits.device)
    q = drawn_from if drawn_from is None or warped else warp(drawn_from, rows)
    return verify.rejection(warp(logits, rows), q, draft, seeds, positions, imposed)


@triton.jit
def _probability(score, token, best, choice, total, temperature):
    """Of a token whose logit is `score`; best, choice, total: the row's largest logit, its token, its softmax's sum."""
    sampled = tl.exp((score - best) / tl.where(temperature > 0.0, temperature, 1.0)) / total
    return tl.where(temperature > 0.0, sampled, tl.where(token == choice, 1.0, 0.0))


@triton.jit
def _walk(
    logits, q_rows, p_largest, p_sums, p_tokens, q_largest, q_sums, q_tokens, draft, temperatures, seeds, positions,
    imposed, accepted, vocab,
    GAMMA: tl.constexpr, COUNT: tl.constexpr, SPAN: tl.constexpr, SAMPLED: tl.constexpr, WARPED: tl.constexpr,
    GIVEN: tl.constexpr, SALT: tl.constexpr,
):  # fmt: skip
    b = tl.program_id(0)
    temperature, seed = tl.load(temperatures + b), tl.load(seeds + b)
    kept = tl.zeros((), tl.int32)
    for i in tl.static_range(GAMMA):
        row, q_row = b * (GAMMA + 1) + i, b * GAMMA + i
        token = tl.load(draft + q_row)
        at = tl.maximum(token, 0)
        best, choice = best_of(p_largest, p_tokens, row, COUNT, SPAN)
        total = softmax_sum(p_largest, p_sums, row, best, temperature, COUNT, SPAN)
        score = tl.load(logits + row.to(tl.int64) * vocab + at).to(tl.float32)
        p = _probability(score, at, best, choice, total, temperature)
        u = uniform(key(seed, tl.load(positions + row), SALT))
        if SAMPLED:
            q = tl.load(q_rows + q_row.to(tl.int64) * vocab + at).to(tl.float32)
            if not WARPED:
                best, choice = best_of(q_largest, q_tokens, q_row, COUNT, SPAN)
                total = softmax_sum(q_largest, q_sums, q_row, best, temperature, COUNT, SPAN)
                q = _probability(q, at, best, choice, total, temperature)
            u = u * q
        kept += ((kept == i) & (token >= 0) & (u < p)).to(tl.int32)
    if GIVEN:
        kept = tl.load(imposed + b).to(tl.int32)
    tl.store(accepted + b, kept.to(tl.int64))


@triton.jit
def _race(
    logits, q_rows, p_largest, p_sums, p_tokens, q_largest, q_sums, q_tokens, draft, temperatures, seeds, positions,
    accepted, rings, winners, vocab, plane,
    GAMMA: tl.constexpr, COUNT: tl.constexpr, SPAN: tl.constexpr, SAMPLED: tl.constexpr, WARPED: tl.constexpr,
    SALT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    b, block = tl.program_id(0), tl.program_id(1)
    temperature = tl.load(temperatures + b)
    kept = tl.load(accepted + b).to(tl.int32)
    row = b * (GAMMA + 1) + kept
    ids = block * BLOCK + tl.arange(0, BLOCK)
    real = ids < vocab
    best, choice = best_of(p_largest, p_tokens, row, COUNT, SPAN)
    total = softmax_sum(p_largest, p_sums, row, best, temperature, COUNT, SPAN)
    scores = tl.load(logits + row.to(tl.int64) * vocab + ids, mask=real, other=float("-inf")).to(tl.float32)
    p = _probability(scores, ids, best, choice, total, temperature)
    # -1 where nothing was rejected: after a whole draft, or where none was
    rejected = tl.load(draft + b * GAMMA + kept, mask=kept < GAMMA, other=-1)
    left = tl.where(ids == rejected, 0.0, p)
    if SAMPLED:
        q_row = b * GAMMA + tl.minimum(kept, GAMMA - 1)
        q = tl.load(q_rows + q_row.to(tl.int64) * vocab + ids, mask=real, other=float("-inf")).to(tl.float32)
        if not WARPED:
            best, choice = best_of(q_largest, q_tokens, q_row, COUNT, SPAN)
            total = softmax_sum(q_largest, q_sums, q_row, best, temperature, COUNT, SPAN)
            q = _probability(q, ids, best, choice, total, temperature)
        left = tl.where(rejected >= 0, tl.maximum(p - q, 0.0), p)
    e = exponential(key(tl.load(seeds + b), tl.load(positions + row), SALT), ids)
    at = b * COUNT + block
    ring, winner = tl.max(tl.where(real, left / e, -1.0), 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(rings + at, ring)
    tl.store(winners + at, block * BLOCK + winner)
    ring, winner = tl.max(tl.where(real, p / e, -1.0), 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(rings + plane + at, ring)
    tl.store(winners + plane + at, block * BLOCK + winner)


@triton.jit
def _pick(rings, winners, next_token, batch, COUNT: tl.constexpr, SPAN: tl.constexpr):
    b = tl.program_id(0)
    ring, left = best_of(rings, winners, b, COUNT, SPAN)
    _, whole = best_of(rings, winners, batch + b, COUNT, SPAN)
    # Where p and q agree to the last place nothing is left of the residual, and p itself is the limit.
    tl.store(next_token + b, tl.where(ring > 0.0, left, whole).to(tl.int64))
