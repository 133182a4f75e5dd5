"""Rows of a vocabulary in blocks: the largest logit of each, which token has it, and the sum that a softmax needs.

A row's blocks are worked on side by side, which a few rows of a large vocabulary need to keep a GPU busy; a kernel that
comes after joins them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from specbench.decoder.kernels.launch import launch

BLOCK = 8192


@dataclass(frozen=True, slots=True)
class Blocks:
    """largest [N, blocks] float32 · sums [N, blocks] float32: of exp((logit - largest) / temperature) ·
    tokens [N, blocks] int32: the lowest id among equals
    """

    largest: Tensor
    sums: Tensor
    tokens: Tensor

    @property
    def count(self) -> int:
        return self.largest.shape[1]


def blocks(logits: Tensor, temperature: Tensor | None, block: int = BLOCK) -> Blocks:
    """logits [B, w, V], contiguous, any float · temperature [B] float32, None for no sums · block: a power of two"""
    batch, width, vocab = logits.shape
    count = triton.cdiv(vocab, block)
    kinds = (torch.float32, torch.float32, torch.int32)
    found = Blocks(*(logits.new_empty(batch * width, count, dtype=kind) for kind in kinds))
    if batch * width:
        launch(
            _block, (batch * width, count), logits, found.largest if temperature is None else temperature,
            found.largest, found.sums, found.tokens, vocab,
            WIDTH=width, COUNT=count, SUMS=temperature is not None, BLOCK=block, warps=8,
        )  # fmt: skip
    return found


@triton.jit
def _block(
    logits, temperatures, largest, sums, tokens, vocab,
    WIDTH: tl.constexpr, COUNT: tl.constexpr, SUMS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, block = tl.program_id(0), tl.program_id(1)
    token = block * BLOCK + tl.arange(0, BLOCK)
    scores = tl.load(logits + row.to(tl.int64) * vocab + token, mask=token < vocab, other=float("-inf")).to(tl.float32)
    best, at = tl.max(scores, 0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(largest + row * COUNT + block, best)
    tl.store(tokens + row * COUNT + block, block * BLOCK + at)
    if SUMS:
        temperature = tl.load(temperatures + row // WIDTH)
        # In a block of nothing but -inf nothing has weight, and -inf - -inf would be no number.
        shift = tl.where(best == float("-inf"), 0.0, best)
        weights = tl.exp((scores - shift) / tl.where(temperature > 0.0, temperature, 1.0))
        tl.store(sums + row * COUNT + block, tl.sum(weights, 0))


@triton.jit
def best_of(largest, tokens, row, COUNT: tl.constexpr, SPAN: tl.constexpr):
    """The largest of a row over its blocks, and its token; the lowest id among equals. SPAN: a power of two >= COUNT"""
    block = tl.arange(0, SPAN)
    values = tl.load(largest + row * COUNT + block, mask=block < COUNT, other=float("-inf"))
    best, at = tl.max(values, 0, return_indices=True, return_indices_tie_break_left=True)
    return best, tl.load(tokens + row * COUNT + at)


@triton.jit
def softmax_sum(largest, sums, row, best, temperature, COUNT: tl.constexpr, SPAN: tl.constexpr):
    """Of exp((logit - best) / temperature) over a row, 1 for a temperature of 0."""
    block = tl.arange(0, SPAN)
    values = tl.load(largest + row * COUNT + block, mask=block < COUNT, other=float("-inf"))
    parts = tl.load(sums + row * COUNT + block, mask=block < COUNT, other=0.0)
    return tl.sum(parts * tl.exp((values - best) / tl.where(temperature > 0.0, temperature, 1.0)), 0)
