"""Weights of 8 or 4 bits, computed with in the model's own precision: fewer bytes to read, and other outputs.

A quantized target is another model: what speculation must leave as it is are *its* outputs. CPU only.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from specbench.decoder.models import QUANTIZATIONS
from specbench.decoder.models.linear import Linear, Unfused, linear, size_of

GROUP = 32
"""Weights that share a scale at 4 bits: llama.cpp's Q4_1 has the same groups, so that its files lose nothing more."""


class Int8Linear(Unfused):
    """Weights [out, in] of 8 bits, with one scale per output: the largest of a row becomes ±127."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        scale = weight.float().abs().amax(1).clamp_min(1e-12) / 127
        self.weight = (weight.float() / scale[:, None]).round().to(torch.int8)
        self.scale, self.bias = scale.to(weight.dtype), bias
        self.nbytes = size_of(self.weight, self.scale, bias)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int8pack_mm(x, self.weight, self.scale)
        return y if self.bias is None else y.add_(self.bias)


class Int4Linear(Unfused):
    """Weights [out, in] of 4 bits: each group of `GROUP` along a row spans its own smallest to largest value."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        groups = weight.float().view(len(weight), -1, GROUP)
        low, high = groups.aminmax(dim=2, keepdim=True)
        scale = ((high - low) / 15).clamp_min(1e-12)
        codes = ((groups - low) / scale).round().clamp_(0, 15).to(torch.int32).flatten(1)
        # The kernel reads a code c as (c - 8) * scale + zero.
        scales_zeros = torch.cat([scale, low + 8 * scale], 2).transpose(0, 1).to(weight.dtype)
        self.weight = torch.ops.aten._convert_weight_to_int4pack_for_cpu(codes, 1)
        self.scales_zeros, self.bias = scales_zeros.contiguous(), bias
        self.nbytes = size_of(self.weight, self.scales_zeros, bias)

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.aten._weight_int4pack_mm_for_cpu(x, self.weight, GROUP, self.scales_zeros)
        return y if self.bias is None else y.add_(self.bias)


def int4(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """4 bits where the kernel takes the shape (inputs in whole groups, outputs in sixteens), else 8."""
    outputs, inputs = weight.shape
    return Int4Linear(weight, bias) if inputs % GROUP == 0 and outputs % 16 == 0 else Int8Linear(weight, bias)


def forms(quantization: str | None, device: torch.device) -> tuple[Callable[..., Linear], Callable[..., Linear]]:
    """The form of the layers' weights and of the head's, which chooses among tokens: its errors show, so it has 8 bits.

    Raises ValueError for an unknown name, and where there are no kernels.
    """
    if quantization is None:
        return linear, linear
    if quantization not in QUANTIZATIONS:
        raise ValueError(f"unknown quantization {quantization!r}. Choose from: {', '.join(QUANTIZATIONS)}.")
    if device.type != "cpu":
        raise ValueError(f"quantization {quantization} is for the CPU alone in this decoder. Leave it out on {device}.")
    return (int4 if quantization == "int4" else Int8Linear), Int8Linear
