"""Matrix products with a model's weights, and what follows them at once in a decoder layer.

On a CPU a model's speed is that of reading its weights for a few rows at a time, and that depends on how they lie in
memory. No layout is best everywhere, so there is a rule by size and precision below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Linear(Protocol):
    """y = x Wᵀ + bias, with x [N, in] and y [N, out].

    nbytes: of the weights and the bias, as they are kept
    """

    nbytes: int

    def __call__(self, x: Tensor) -> Tensor: ...

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """y + residual; residual [N, out]"""

    def silu(self, x: Tensor) -> Tensor:
        """silu(y)"""

    def times(self, x: Tensor, factor: Tensor) -> Tensor:
        """y * factor; factor [N, out]"""


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """The fastest form of a weight [out, in] on its device."""
    packable = weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and packs_bfloat16())
    packable = packable and weight.device.type == "cpu"
    if not packable or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return PlainLinear(weight.contiguous(), bias)
    if weight.dtype == torch.float32 and weight.numel() < _SMALL:
        return PlainLinear(weight.t().contiguous().t(), bias)
    return PackedLinear(weight, bias)


_SMALL = 0 if torch.backends.cpu.get_cpu_capability() == "AVX2" else 2**20
"""float32 weights of fewer elements are read fastest column by column, at one row; larger ones packed, at any. With
AVX2 packed ones always are: at two rows in two thirds of the time, at five in four fifths
(`benchmarks/weight_layouts.py`)."""


class Unfused(ABC):
    """What follows a product, where its kernel cannot do it."""

    @abstractmethod
    def __call__(self, x: Tensor) -> Tensor: ...

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        return self(x).add_(residual)

    def silu(self, x: Tensor) -> Tensor:
        return F.silu(self(x))

    def times(self, x: Tensor, factor: Tensor) -> Tensor:
        return self(x).mul_(factor)


def size_of(*tensors: Tensor | None) -> int:
    return sum(tensor.nbytes for tensor in tensors if tensor is not None)


class PlainLinear(Unfused):
    """Weights as any strided matrix."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias, self.nbytes = weight, bias, size_of(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


_ROWS_HINT = 8
"""oneDNN chooses its blocking for a number of rows: this suits the few rows of a verification as well as one."""

packs_bfloat16 = torch.ops.mkldnn._is_mkldnn_bf16_supported
"""Whether oneDNN multiplies in bfloat16 on this CPU (AVX-512, or AVX-NE-CONVERT)."""

_pack = torch.ops.mkldnn._reorder_linear_weight
_linear = torch.ops.mkldnn._linear_pointwise
_linear_binary = torch.ops.mkldnn._linear_pointwise.binary


class PackedLinear:
    """Weights in oneDNN's blocked layout. What follows the product is part of the same kernel and costs nothing."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = _pack(weight.contiguous(), _ROWS_HINT), bias
        self.nbytes = size_of(weight, bias)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = _linear(x, self.weight, self.bias, "none", [], "")
        return y

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        y: Tensor = _linear_binary(x, residual, self.weight, self.bias, "add")
        return y

    def silu(self, x: Tensor) -> Tensor:
        y: Tensor = _linear(x, self.weight, self.bias, "swish", [], "")
        return y

    def times(self, x: Tensor, factor: Tensor) -> Tensor:
        y: Tensor = _linear_binary(x, factor, self.weight, self.bias, "mul")
        return y
