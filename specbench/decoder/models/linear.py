"""Matrix products with a model's weights, and what follows them at once in a decoder layer.

On a CPU the weights are kept in oneDNN's blocked layout: up to three times the speed of `F.linear` at the few rows of a
verification pass, and the additions, products and SiLU around a product cost nothing.
"""

from __future__ import annotations

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor


class Linear(Protocol):
    """y = x Wᵀ + bias, with x [N, in] and y [N, out]."""

    def __call__(self, x: Tensor) -> Tensor: ...

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        """y + residual; residual [N, out]"""

    def silu(self, x: Tensor) -> Tensor:
        """silu(y)"""

    def times(self, x: Tensor, factor: Tensor) -> Tensor:
        """y * factor; factor [N, out]"""


def linear(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """The fastest form for this weight [out, in]: packed where oneDNN has kernels for it, else plain."""
    packable = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
    one_dnn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return PackedLinear(weight, bias) if packable and one_dnn else PlainLinear(weight, bias)


class PlainLinear:
    """Row-major weights, as stored."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = weight.contiguous(), bias

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def plus(self, x: Tensor, residual: Tensor) -> Tensor:
        return self(x).add_(residual)

    def silu(self, x: Tensor) -> Tensor:
        return F.silu(self(x))

    def times(self, x: Tensor, factor: Tensor) -> Tensor:
        return self(x).mul_(factor)


_ROWS_HINT = 8
"""oneDNN chooses its blocking for a number of rows. 8 was as good as any from 2 to 40, and 1 much worse (fp32)."""

_pack = torch.ops.mkldnn._reorder_linear_weight
_linear = torch.ops.mkldnn._linear_pointwise
_linear_binary = torch.ops.mkldnn._linear_pointwise.binary


class PackedLinear:
    """Weights in oneDNN's blocked layout."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight, self.bias = _pack(weight.contiguous(), _ROWS_HINT), bias

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
