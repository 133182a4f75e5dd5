"""silu(gate) * up, the middle of a decoder layer's MLP."""

from __future__ import annotations

import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, empty_like

from specbench.decoder.kernels.launch import launch

_BLOCK = 1024


def silu_mul(gate: Tensor, up: Tensor) -> Tensor:
    """gate, up: of one shape, contiguous -> the same"""
    out = empty_like(gate)
    size = gate.numel()
    launch(_silu_mul, (triton.cdiv(size, _BLOCK),), gate, up, out, size, BLOCK=_BLOCK)
    return out


def silu_mul_twin(gate: Tensor, up: Tensor) -> Tensor:
    return F.silu(gate).mul_(up)


@triton.jit
def _silu_mul(gate, up, out, size, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + at, mask=at < size, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=at < size, other=0.0).to(tl.float32)
    tl.store(out + at, (g / (1.0 + tl.exp(-g)) * u).to(out.dtype.element_ty), mask=at < size)
