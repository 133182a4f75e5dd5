"""A sublayer's result added to the residual stream, and the sum normalised for the next one: RMSNorm in one pass."""

from __future__ import annotations

import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor, empty_like

from specbench.decoder.kernels.launch import launch


def add_norm(x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The sum x + delta, and it normalised. x itself stays as it is: a tapped layer's input is kept by others.

    x, delta [N, H], contiguous; no delta adds nothing · weight [H] -> [N, H] both
    """
    rows, size = x.shape
    out, total = empty_like(x), x if delta is None else empty_like(x)
    block = triton.next_power_of_2(size)
    launch(
        _add_norm, (rows,), x, x if delta is None else delta, weight, total, out, eps,
        SIZE=size, ADDS=delta is not None, BLOCK=block, warps=min(8, max(1, block // 512)),
    )  # fmt: skip
    return total, out


def add_norm_twin(x: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    total = x if delta is None else x + delta
    return total, F.rms_norm(total, weight.shape, weight, eps)


@triton.jit
def _add_norm(x, delta, weight, total, out, eps, SIZE: tl.constexpr, ADDS: tl.constexpr, BLOCK: tl.constexpr):
    channel = tl.arange(0, BLOCK)
    at = tl.program_id(0).to(tl.int64) * SIZE + channel
    real = channel < SIZE
    row = tl.load(x + at, mask=real, other=0.0).to(tl.float32)
    if ADDS:
        row += tl.load(delta + at, mask=real, other=0.0).to(tl.float32)
        rounded = row.to(total.dtype.element_ty)
        tl.store(total + at, rounded, mask=real)
        row = rounded.to(tl.float32)  # what is normalised is the stream as later layers see it
    size = tl.sqrt(tl.sum(row * row, 0) / SIZE + eps)
    scaled = row / size * tl.load(weight + channel, mask=real, other=0.0).to(tl.float32)
    tl.store(out + at, scaled.to(out.dtype.element_ty), mask=real)
