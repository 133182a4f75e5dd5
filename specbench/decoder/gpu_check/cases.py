"""A kernel and its plain-torch twin on the same random inputs, in the shapes of a decoding step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from specbench.decoder.cache import EMPTY
from specbench.decoder.kernels import attention, greedy, norm, rejection, rotary, silu
from specbench.decoder.sampling import SamplingParams, Warp, warp
from specbench.decoder.verify import Verified

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """context: slots of each row of the cache; rows hold as many tokens as chance has it · block: of the vocabulary"""

    batch: int
    gamma: int
    group: int
    kv_heads: int
    dim: int
    context: int
    hidden: int
    vocab: int
    dtype: torch.dtype
    splits: int | None = None
    block: int = 8192
    seed: int = 0

    @property
    def width(self) -> int:
        return self.gamma + 1

    @property
    def heads(self) -> int:
        return self.group * self.kv_heads


TINY = Shape(2, 2, 3, 2, 64, context=96, hidden=144, vocab=300, dtype=torch.float32, splits=2, block=128)
LLAMA_8B = Shape(8, 3, 4, 8, 128, context=4096, hidden=4096, vocab=128_256, dtype=torch.bfloat16)


@dataclass(frozen=True, slots=True)
class Case:
    """kernel, twin: the same work, with the same tensors as its result · moved: bytes that it must read and write"""

    kernel: Callable[[], Tensors]
    twin: Callable[[], Tensors]
    moved: int


class _Random:
    """Inputs of a shape, the same for the same seed."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        self._generator = torch.Generator(device).manual_seed(shape.seed)
        self._shape, self._device = shape, device

    def normal(self, *size: int, spread: float = 1.0) -> Tensor:
        numbers = torch.randn(size, generator=self._generator, device=self._device) * spread
        return numbers.to(self._shape.dtype)

    def below(self, limit: int, *size: int, least: int = 0) -> Tensor:
        return torch.randint(least, limit, size, generator=self._generator, device=self._device)


def attention_case(shape: Shape, device: torch.device) -> Case:
    """Rows of different lengths, with stale entries behind their newest tokens."""
    random = _Random(shape, device)
    queries = random.normal(shape.batch, shape.width, shape.heads, shape.dim)
    entries = random.normal(shape.batch, shape.context, 2, shape.kv_heads, shape.dim)
    lengths = random.below(shape.context - 2 * shape.width, shape.batch)
    positions = lengths[:, None] + torch.arange(shape.width, device=device)
    slot = torch.arange(shape.context, device=device)
    held = slot.expand(shape.batch, -1).masked_fill(slot >= lengths[:, None] + 2 * shape.width, EMPTY).contiguous()
    slots = (positions + torch.arange(shape.batch, device=device)[:, None] * shape.context).flatten()
    read = int((lengths + shape.width).sum()) * entries[0, 0].nbytes
    return Case(
        lambda: (attention.attend(queries, entries, held, slots, positions, shape.splits),),
        lambda: (attention.attend_twin(queries, entries, held, positions),),
        moved=read + 2 * queries.nbytes,
    )


def norm_case(shape: Shape, device: torch.device) -> Case:
    random = _Random(shape, device)
    x, delta = (random.normal(shape.batch * shape.width, shape.hidden) for _ in range(2))
    weight = random.normal(shape.hidden)
    return Case(
        lambda: (*norm.add_norm(x, delta, weight, 1e-5), *norm.add_norm(x, None, weight, 1e-5)),
        lambda: (*norm.add_norm_twin(x, delta, weight, 1e-5), *norm.add_norm_twin(x, None, weight, 1e-5)),
        moved=6 * x.nbytes,
    )


def rotary_case(shape: Shape, device: torch.device) -> Case:
    """New tokens at scattered slots; what other slots hold stays as it is."""
    random = _Random(shape, device)
    tokens = shape.batch * shape.width
    qkv = random.normal(tokens, shape.heads + 2 * shape.kv_heads, shape.dim)
    angles = random.normal(tokens, 1, shape.dim // 2, spread=100.0).float()
    rotation = torch.polar(torch.ones_like(angles), angles)
    entries = random.normal(tokens + 64, 2, shape.kv_heads, shape.dim)
    slots = torch.randperm(len(entries), device=device)[:tokens]
    ours, theirs = entries.clone(), entries.clone()
    return Case(
        lambda: (rotary.rotate_and_write(qkv, rotation, ours, slots, shape.heads), ours),
        lambda: (rotary.rotate_and_write_twin(qkv, rotation, theirs, slots, shape.heads), theirs),
        moved=2 * qkv.nbytes,
    )


def silu_case(shape: Shape, device: torch.device) -> Case:
    random = _Random(shape, device)
    gate, up = (random.normal(shape.batch * shape.width, 3 * shape.hidden, spread=3.0) for _ in range(2))
    return Case(lambda: (silu.silu_mul(gate, up),), lambda: (silu.silu_mul_twin(gate, up),), moved=3 * gate.nbytes)


def greedy_case(shape: Shape, device: torch.device) -> Case:
    """Drafts that are right at first and end early in some rows; logits on a coarse grid, so that many are equal."""
    random = _Random(shape, device)
    logits = random.normal(shape.batch, shape.width, shape.vocab).mul_(4).round_()
    draft = _partly_right(logits.argmax(-1)[:, :-1], random, shape)
    return Case(
        lambda: _verified(greedy.greedy(logits, draft, block=shape.block)),
        lambda: _verified(greedy.greedy_twin(logits, draft)),
        moved=logits.nbytes,
    )


def rejection_case(shape: Shape, device: torch.device) -> Case:
    """Drafts drawn from logits near the target's; every third row is greedy, in its draft too."""
    return _rejection(shape, device, "logits")


def warped_rejection_case(shape: Shape, device: torch.device) -> Case:
    """The same from their probabilities."""
    return _rejection(shape, device, "probabilities")


def one_hot_rejection_case(shape: Shape, device: torch.device) -> Case:
    """Drafts chosen without chance, as a lookup's are."""
    return _rejection(shape, device, None)


def _rejection(shape: Shape, device: torch.device, drawn_from: Literal["logits", "probabilities"] | None) -> Case:
    random = _Random(shape, device)
    logits = random.normal(shape.batch, shape.width, shape.vocab, spread=2.0)
    q = (logits[:, :-1] + random.normal(shape.batch, shape.gamma, shape.vocab, spread=0.7)).contiguous()
    row = torch.arange(shape.batch, device=device)
    temperature = torch.tensor([0.7, 1.3, 0.0], device=device)[row % 3]
    draft = _partly_right(q.argmax(-1), random, shape)
    seeds, first = random.below(2**62, shape.batch) - 2**61, random.below(10_000, shape.batch)
    positions = first[:, None] + torch.arange(shape.width, device=device)
    warped = drawn_from == "probabilities"
    if warped:
        q = warp(q, Warp.stack([SamplingParams(temperature=t) for t in temperature.tolist()], device))
    inputs = (logits, q if drawn_from else None, draft, temperature, seeds, positions)
    return Case(
        lambda: _verified(rejection.rejection(*inputs, warped=warped, block=shape.block)),
        lambda: _verified(rejection.rejection_twin(*inputs, warped=warped)),
        moved=logits.nbytes + (q.nbytes if drawn_from else 0),
    )


def _partly_right(best: Tensor, random: _Random, shape: Shape) -> Tensor:
    # best [B, γ]: three in four stay, others become any token or the end of the draft
    chance = random.below(8, *best.shape)
    other = random.below(shape.vocab, *best.shape)
    return best.where(chance > 1, other.where(chance == 1, -1)).contiguous()


def _verified(found: Verified) -> Tensors:
    return found.accepted, found.next_token
