"""A model's layers on the kernels: `models.llama.run_layers` is the twin.

What a sublayer gives is added to the residual stream by the norm that comes next, in the following layer where need be.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.decoder import kernels
from specbench.decoder.cache import CacheView
from specbench.decoder.config import ModelConfig
from specbench.decoder.kernels import attention
from specbench.decoder.kernels.norm import add_norm
from specbench.decoder.kernels.rotary import rotate_and_write
from specbench.decoder.kernels.silu import silu_mul
from specbench.decoder.models.llama import Layer, attend_cached, project


def run_layers(
    config: ModelConfig, layers: Sequence[Layer], x: Tensor, rotation: Tensor, view: CacheView, taps: Sequence[int]
) -> tuple[Tensor, list[Tensor]]:
    """As `models.llama.run_layers`."""
    hidden: list[Tensor] = []
    given: Tensor | None = None  # by the sublayer before, and not yet part of x
    for index, layer in enumerate(layers):
        x, h = add_norm(x, given, layer.attention_norm, config.rms_norm_eps)
        if index in taps:
            hidden.append(x)
        given = layer.output(attend(config, layer, index, h, rotation, view))
        x, h = add_norm(x, given, layer.mlp_norm, config.rms_norm_eps)
        given = layer.down(silu_mul(layer.gate(h), layer.up(h)))
    x = x if given is None else x + given
    if len(layers) in taps:
        hidden.append(x)
    return x, hidden


def attend(config: ModelConfig, layer: Layer, index: int, x: Tensor, rotation: Tensor, view: CacheView) -> Tensor:
    """As `models.llama.attend`. Prompts, and trees, whose visibility is not told by positions, go PyTorch's way."""
    batch, width = view.positions.shape
    entries = view.entries[index]
    queries = rotate_and_write(
        project(config, layer, x), rotation, entries.flatten(0, 1), view.flat_slots, config.num_heads
    )
    if not kernels.takes(view):
        return attend_cached(config, index, queries, view)
    out = attention.attend(
        queries.view(batch, width, config.num_heads, config.head_dim),
        entries,
        view.held,
        view.flat_slots,
        view.positions.contiguous(),
    )
    return out.view(batch * width, -1)
