"""Attention of a step's few queries over the cache: what is visible is told by positions, and no mask is made.

All queries that share a key-value head, (heads / kv_heads) * (γ + 1) of them, are the rows of one tile, so that every
key is read once. With long contexts and few rows the keys are split over programs (Flash-Decoding, Dao et al., 2023),
and a second kernel joins the parts.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from specbench.decoder.kernels.launch import launch

_BLOCK = 64
"""Keys per tile."""

_PROGRAMS = 256
"""Programs that keep a GPU busy: about two for each multiprocessor of an A100 or H100."""


def attend(
    queries: Tensor, entries: Tensor, held: Tensor, slots: Tensor, positions: Tensor, splits: int | None = None
) -> Tensor:
    """Scaled dot-product attention of each query over the keys whose position is at most its own.

    queries [B, w, heads, D], contiguous, w * heads / kv_heads <= kernels.MAX_ROWS, D a power of two from 16 on ·
    entries [B, S, 2, kv_heads, D], contiguous: keys and values of one layer · held [B, S] int64: the position that each
    slot holds · slots [B * w] int64: of the queries' own entries, counted through all rows; none is visible behind them
    · positions [B, w] int64, contiguous · splits: programs per row and key-value head, a power of two; None for as many
    as keep a GPU busy -> [B, w, heads, D]

    Sums over other numbers of splits differ in their last places: with 1 a request's bits do not depend on its mates.
    """
    batch, width, heads, dim = queries.shape
    capacity, kv_heads = entries.shape[1], entries.shape[3]
    if splits is None:
        splits = _splits(batch * kv_heads, capacity)
    group = heads // kv_heads
    rows = max(16, triton.next_power_of_2(width * group))
    parts = queries.new_empty(batch, kv_heads, splits, rows, dim, dtype=torch.float32)
    sums = queries.new_empty(batch, kv_heads, splits, 2, rows, dtype=torch.float32)
    launch(
        _attend_split, (batch, kv_heads, splits), queries, entries, held, slots, positions, parts, sums, capacity,
        WIDTH=width, GROUP=group, KV_HEADS=kv_heads, DIM=dim, SPLITS=splits, ROWS=rows, BLOCK=_BLOCK, SCALE=dim**-0.5,
        WIDEN=not isinstance(_attend_split, triton.JITFunction),
    )  # fmt: skip
    out = torch.empty_like(queries)
    launch(
        _join, (batch * width, heads), parts, sums, out,
        WIDTH=width, GROUP=group, KV_HEADS=kv_heads, DIM=dim, SPLITS=splits, ROWS=rows, warps=1,
    )  # fmt: skip
    return out


def attend_twin(queries: Tensor, entries: Tensor, held: Tensor, positions: Tensor) -> Tensor:
    visible = held[:, None, :] <= positions[:, :, None]
    keys, values = entries.transpose(1, 3).unbind(2)
    group = queries.shape[2] // keys.shape[1]
    out = F.scaled_dot_product_attention(
        queries.transpose(1, 2),
        keys.repeat_interleave(group, 1),
        values.repeat_interleave(group, 1),
        attn_mask=visible[:, None],
    )
    return out.transpose(1, 2)


def _splits(programs: int, capacity: int) -> int:
    # No split below four tiles: joining would cost more than it saves.
    most = max(1, capacity // (4 * _BLOCK))
    wanted = min(-(-_PROGRAMS // programs), most)
    return 1 << (wanted - 1).bit_length()


@triton.jit
def _product(a, b, WIDEN: tl.constexpr):
    if WIDEN:  # for the interpreter, which would multiply bfloat16's bits as if they were integers
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _attend_split(
    queries, entries, held, slots, positions, parts, sums, capacity,
    WIDTH: tl.constexpr, GROUP: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, SPLITS: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, SCALE: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    b, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    row, channel = tl.arange(0, ROWS), tl.arange(0, DIM)
    real = row < WIDTH * GROUP
    token = b * WIDTH + row // GROUP
    head = kv_head * GROUP + row % GROUP
    q_at = (token * (KV_HEADS * GROUP) + head) * DIM
    q = tl.load(queries + q_at[:, None] + channel[None, :], mask=real[:, None], other=0.0)
    position = tl.load(positions + token, mask=real, other=-1)
    first = b.to(tl.int64) * capacity
    used = (tl.max(tl.load(slots + token, mask=real, other=0), 0) - first).to(tl.int32) + 1
    share = tl.cdiv(tl.cdiv(used, SPLITS), BLOCK) * BLOCK
    begin = split * share
    end = tl.minimum(begin + share, used)

    largest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    out = tl.zeros((ROWS, DIM), tl.float32)
    for start in range(begin, end, BLOCK):
        slot = start + tl.arange(0, BLOCK)
        inside = slot < end
        place = tl.load(held + first + slot, mask=inside, other=4611686018427387904)  # cache.EMPTY
        key_at = (first + slot) * (2 * KV_HEADS * DIM) + kv_head * DIM
        k = tl.load(entries + key_at[None, :] + channel[:, None], mask=inside[None, :], other=0.0)
        scores = _product(q, k, WIDEN) * SCALE
        scores = tl.where(place[None, :] <= position[:, None], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        shift = tl.where(larger == float("-inf"), 0.0, larger)  # nothing visible yet: exp(-inf - 0) is 0
        weights = tl.exp(scores - shift[:, None])
        fade = tl.exp(largest - shift)
        v = tl.load(
            entries + key_at[:, None] + KV_HEADS * DIM + channel[None, :], mask=inside[:, None], other=0.0
        )  # fmt: skip
        total = total * fade + tl.sum(weights, 1)
        out = out * fade[:, None] + _product(weights.to(v.dtype), v, WIDEN)
        largest = larger

    part = (b * KV_HEADS + kv_head) * SPLITS + split
    tl.store(sums + part * (2 * ROWS) + row, largest)
    tl.store(sums + part * (2 * ROWS) + ROWS + row, total)
    tl.store(parts + (part * ROWS + row[:, None]) * DIM + channel[None, :], out)


@triton.jit
def _join(
    parts, sums, out,
    WIDTH: tl.constexpr, GROUP: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr, SPLITS: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    token, head = tl.program_id(0), tl.program_id(1)
    row = token % WIDTH * GROUP + head % GROUP
    split, channel = tl.arange(0, SPLITS), tl.arange(0, DIM)
    part = (token // WIDTH * KV_HEADS + head // GROUP) * SPLITS + split
    largest = tl.load(sums + part * (2 * ROWS) + row)
    # A query sees at least its own key, so the largest of all is finite.
    share = tl.exp(largest - tl.max(largest, 0))
    total = tl.sum(share * tl.load(sums + part * (2 * ROWS) + ROWS + row), 0)
    values = tl.load(parts + (part[:, None] * ROWS + row) * DIM + channel[None, :])
    joined = tl.sum(values * share[:, None], 0) / total
    tl.store(out + (token * (KV_HEADS * GROUP) + head) * DIM + channel, joined.to(out.dtype.element_ty))
