"""Rotary position embedding (Su et al., 2021) as complex multiplication.

Hugging Face checkpoints pair channel i of a head with channel i + D/2; here the two stand side by side, so that a head
is D/2 complex numbers and rotating it is one product. Scores are the same: both q and k are reordered.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from specbench.decoder.config import Llama3Scaling, ModelConfig


def interleave(weight: Tensor, head_dim: int) -> Tensor:
    """Bring the two halves of every head side by side.

    weight [heads * head_dim, ...]: q's or k's weight, bias or norm
    """
    halves = weight.view(-1, 2, head_dim // 2, *weight.shape[1:])
    return halves.transpose(1, 2).reshape(weight.shape)


def frequencies(config: ModelConfig) -> Tensor:
    """[head_dim/2] float32: radians per position of each pair of channels."""
    plain = config.rope_theta ** -(torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim)
    return _stretch(plain, config.rope_scaling) if config.rope_scaling else plain


def rotations(frequencies: Tensor, positions: Tensor) -> Tensor:
    """e^(i·position·frequency). frequencies [D/2] · positions [N] int64 -> [N, 1, D/2] complex64"""
    angles = positions[:, None, None] * frequencies
    return torch.polar(torch.ones_like(angles), angles)


def _stretch(frequencies: Tensor, scaling: Llama3Scaling) -> Tensor:
    """Llama 3.1: slow rotations are slowed by `factor`, fast ones kept, those between blended linearly in frequency."""
    turns = scaling.original_length * frequencies / (2 * math.pi)
    share_kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)
    share_kept = share_kept.clamp(0, 1)
    return frequencies * (share_kept + (1 - share_kept) / scaling.factor)


def rotate(heads: Tensor, rotation: Tensor) -> None:
    """Rotate in place.

    heads [N, H, D], interleaved; a view whose last dimension is dense · rotation [N, 1, D/2] complex
    """
    pairs = heads.view(*heads.shape[:-1], -1, 2)
    if heads.dtype == torch.float32:
        torch.view_as_complex(pairs).mul_(rotation)
    else:
        pairs.copy_(torch.view_as_real(torch.view_as_complex(pairs.float()) * rotation))
