"""Queries and keys turned by their positions, keys and values written to their slots of the cache: one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specbench.decoder.kernels.launch import launch
from specbench.decoder.models.rope import rotate


def rotate_and_write(qkv: Tensor, rotation: Tensor, entries: Tensor, slots: Tensor, heads: int) -> Tensor:
    """The turned queries; keys and values go into the cache.

    qkv [N, heads + 2 * kv_heads, D], contiguous, D a power of two, q and k interleaved as in `models.rope` ·
    rotation [N, 1, D/2] complex64 · entries [S, 2, kv_heads, D], contiguous: a layer's slots, counted through all rows
    · slots [N] int64 -> [N, heads, D]
    """
    tokens, all_heads, dim = qkv.shape
    queries = qkv.new_empty(tokens, heads, dim)
    launch(
        _rotate_and_write, (tokens, all_heads), qkv, torch.view_as_real(rotation), entries, slots, queries,
        HEADS=heads, KV_HEADS=(all_heads - heads) // 2, DIM=dim, warps=1,
    )  # fmt: skip
    return queries


def rotate_and_write_twin(qkv: Tensor, rotation: Tensor, entries: Tensor, slots: Tensor, heads: int) -> Tensor:
    qkv, kv_heads = qkv.clone(), (qkv.shape[1] - heads) // 2
    rotate(qkv[:, : heads + kv_heads], rotation)
    entries.flatten(1).index_copy_(0, slots, qkv[:, heads:].flatten(1))
    return qkv[:, :heads]


@triton.jit
def _rotate_and_write(
    qkv, rotation, entries, slots, queries, HEADS: tl.constexpr, KV_HEADS: tl.constexpr, DIM: tl.constexpr
):  # fmt: skip
    token, head = tl.program_id(0), tl.program_id(1)
    channel = tl.arange(0, DIM)
    source = qkv + (token * (HEADS + 2 * KV_HEADS) + head) * DIM
    x = tl.load(source + channel).to(tl.float32)
    if head < HEADS + KV_HEADS:
        partner = tl.load(source + (channel ^ 1)).to(tl.float32)  # the other half of the complex number
        turn = rotation + token * DIM + channel // 2 * 2
        x = x * tl.load(turn) + tl.where(channel % 2 == 0, -partner, partner) * tl.load(turn + 1)
    x = x.to(queries.dtype.element_ty)
    if head < HEADS:
        tl.store(queries + (token * HEADS + head) * DIM + channel, x)
    else:
        slot = tl.load(slots + token)
        tl.store(entries + slot * (2 * KV_HEADS * DIM) + (head - HEADS) * DIM + channel, x)
