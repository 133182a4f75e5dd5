"""The Llama-family decoder (Llama, SmolLM2, Qwen2, Qwen3): rows of a few new tokens each, over a static cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from specbench.decoder import kernels
from specbench.decoder.cache import CacheView
from specbench.decoder.checkpoint import Checkpoint, Weights
from specbench.decoder.config import ModelConfig
from specbench.decoder.graphs import Graphs
from specbench.decoder.models.linear import Linear, linear, size_of
from specbench.decoder.models.quantized import forms
from specbench.decoder.models.rope import frequencies, interleave, rotate, rotations


@dataclass(frozen=True, slots=True)
class Forward:
    """What a forward pass gives.

    logits: [B, k, V] of the last k columns asked for
    hidden: [B, w, taps, hidden_size], the residual stream as it entered each tapped layer (Hugging Face's
            `hidden_states[i]` for layer i); None where no layer was tapped
    """

    logits: Tensor
    hidden: Tensor | None


Sublayer = tuple[int, Literal["attention", "mlp"]]


@dataclass(frozen=True, slots=True)
class Layer:
    """One decoder layer's weights. Norms [hidden_size], per-head norms [head_dim] or None."""

    attention_norm: Tensor
    qkv: Linear
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Linear
    mlp_norm: Tensor
    gate: Linear
    up: Linear
    down: Linear

    @property
    def nbytes(self) -> int:
        """Of its parameters, as they are kept."""
        products = (self.qkv, self.output, self.gate, self.up, self.down)
        norms = size_of(self.attention_norm, self.query_norm, self.key_norm, self.mlp_norm)
        return norms + sum(product.nbytes for product in products)


class Llama:
    """A target or a draft model. Weights are laid out for decoding once, at load; nothing is trained here.

    quantization:  int8 or int4: how layers and head keep their weights (`quantized.py`); None for `dtype`
    weights_bytes: the model's parameters as they are kept, a tied head counted once unless it is quantized
    on_kernels:    whether the kernels and CUDA graphs are used: asked for, and `kernels.usable` here
    read_bytes:    what one pass reads of them: of embeddings that are not the head, only the rows of its tokens
    token_ids:     [V_d] int64, ascending: the token that each logit stands for, where the head speaks only a part of
                   the vocabulary (`d2t` in the checkpoint: token less number); None for an ordinary model
    """

    def __init__(
        self,
        config: ModelConfig,
        checkpoint: Weights,
        dtype: torch.dtype,
        device: torch.device,
        quantization: str | None = None,
        on_kernels: bool = False,
    ) -> None:
        self.config, self.dtype, self.device, self.quantization = config, dtype, device, quantization
        of_layers, of_head = forms(quantization, device)

        def weight(name: str) -> Tensor:
            return checkpoint.tensor(name).to(device, dtype)

        self.embeddings = weight("model.embed_tokens.weight")
        self.layers = [load_layer(config, weight, f"model.layers.{i}.", of_layers) for i in range(config.num_layers)]
        self.norm = weight("model.norm.weight")
        self.head = of_head(self.embeddings if config.tied_embeddings else weight("lm_head.weight"))
        shared = config.tied_embeddings and quantization is None
        self.weights_bytes = size_of(self.embeddings, self.norm) + sum(layer.nbytes for layer in self.layers)
        self.weights_bytes += 0 if shared else self.head.nbytes
        self.read_bytes = size_of(self.norm) + self.head.nbytes + sum(layer.nbytes for layer in self.layers)
        self.token_ids: Tensor | None = None
        if "d2t" in checkpoint:
            offsets = checkpoint.tensor("d2t").to(device)
            self.token_ids = offsets + torch.arange(len(offsets), device=device)
        self.frequencies = frequencies(config).to(device)
        self._run_layers: RunLayers = run_layers
        self._graphs: Graphs | None = None
        self.on_kernels = on_kernels and kernels.usable(device, dtype)
        if self.on_kernels and kernels.fits(config.head_dim):
            from specbench.decoder.kernels import layers  # which imports Triton

            self._run_layers, self._graphs = layers.run_layers, Graphs()

    @classmethod
    def from_directory(
        cls, directory: str | Path, dtype: torch.dtype, device: torch.device, *, on_kernels: bool = False
    ) -> Llama:
        """Raises ValueError for a config or weights that can't be read."""
        config, checkpoint = ModelConfig.from_directory(directory), Checkpoint(directory)
        return cls(config, checkpoint, dtype, device, on_kernels=on_kernels)

    def without(self, skipped: frozenset[Sublayer]) -> Llama:
        """The same model over the same weights, less some of its sublayers. It runs in plain PyTorch."""
        thinned = copy(self)
        thinned._run_layers, thinned._graphs = partial(run_layers, skipped=skipped), None
        return thinned

    def forward(
        self, tokens: Tensor, view: CacheView, logits: int, taps: Sequence[int] = (), *, recurs: bool = True
    ) -> Forward:
        """Run new tokens through the layers and enter them in the cache.

        tokens [B, w] int64, at `view`'s slots and positions · logits: of how many of the last columns logits are wanted
        · taps: the layers whose input is wanted, ascending; the number of layers means what leaves the last one, before
        the final norm · recurs: whether passes of this shape over this cache come again, and are worth a graph
        """
        if self._graphs is None or not recurs or not kernels.takes(view):
            found = self._pass(tokens, view, logits, taps)
        else:
            work = partial(self._pass, logits=logits, taps=taps)
            found = self._graphs.run(work, (logits, tuple(taps)), tokens, view)
        return Forward(found[0], found[1] if taps else None)

    def _pass(self, tokens: Tensor, view: CacheView, logits: int, taps: Sequence[int]) -> tuple[Tensor, ...]:
        """Logits, and where layers are tapped their inputs, as in `Forward`."""
        x = F.embedding(tokens.flatten(), self.embeddings)
        rotation = rotations(self.frequencies, view.positions.flatten())
        x, hidden = self._run_layers(self.config, self.layers, x, rotation, view, taps)
        shape = tokens.shape
        last = x.view(*shape, -1)[:, shape[1] - logits :]
        found = self._logits(last)
        return (found, torch.stack(hidden, 1).view(*shape, len(hidden), -1)) if hidden else (found,)

    def _logits(self, x: Tensor) -> Tensor:
        # x [B, k, hidden_size] -> [B, k, V]
        if x.shape[1] == 0:
            return x.new_empty(*x.shape[:2], self.config.vocab_size)
        return self.head(normalize(self.config, x, self.norm).flatten(0, 1)).view(*x.shape[:2], -1)


RunLayers = Callable[
    [ModelConfig, Sequence[Layer], Tensor, Tensor, CacheView, Sequence[int]], tuple[Tensor, list[Tensor]]
]
"""`run_layers`, or the same work by other means (`kernels.layers`)."""


def run_layers(
    config: ModelConfig,
    layers: Sequence[Layer],
    x: Tensor,
    rotation: Tensor,
    view: CacheView,
    taps: Sequence[int],
    skipped: frozenset[Sublayer] = frozenset(),
) -> tuple[Tensor, list[Tensor]]:
    """The residual stream after all layers but for the sublayers skipped, and as it entered those that are tapped.

    x [B * w, hidden_size] · rotation [B * w, 1, head_dim/2] complex64 -> [B * w, hidden_size], and of each tap the same
    """
    hidden = []
    for index, layer in enumerate(layers):
        if index in taps:
            hidden.append(x)
        if (index, "attention") not in skipped:
            h = normalize(config, x, layer.attention_norm)
            x = layer.output.plus(attend(config, layer, index, h, rotation, view), x)
        if (index, "mlp") not in skipped:
            h = normalize(config, x, layer.mlp_norm)
            x = layer.down.plus(layer.up.times(h, layer.gate.silu(h)), x)
    if len(layers) in taps:
        hidden.append(x)
    return x, hidden


def attend(config: ModelConfig, layer: Layer, index: int, x: Tensor, rotation: Tensor, view: CacheView) -> Tensor:
    """Enter the new tokens' keys and values into layer `index` of the cache, and attend to what each may see.

    x [B * w, in] -> [B * w, heads * head_dim]
    """
    heads = project(config, layer, x)
    rotate(heads[:, : config.num_heads + config.num_kv_heads], rotation)
    view.write(index, heads[:, config.num_heads :].flatten(1))
    return attend_cached(config, index, heads[:, : config.num_heads], view)


def project(config: ModelConfig, layer: Layer, x: Tensor) -> Tensor:
    """Queries, keys and values of new tokens, not yet turned: x [B * w, in] -> [B * w, heads + 2 kv_heads, head_dim]"""
    heads = layer.qkv(x).view(x.shape[0], -1, config.head_dim)
    if layer.query_norm is not None and layer.key_norm is not None:
        queries = heads[:, : config.num_heads]
        keys = heads[:, config.num_heads : config.num_heads + config.num_kv_heads]
        queries.copy_(normalize(config, queries, layer.query_norm))
        keys.copy_(normalize(config, keys, layer.key_norm))
    return heads


def attend_cached(config: ModelConfig, index: int, queries: Tensor, view: CacheView) -> Tensor:
    """Attention over layer `index` of the cache: turned queries [B * w, heads, D] -> [B * w, heads * D]"""
    batch, width = view.positions.shape
    # The heads of a group become rows of one query matrix: PyTorch's grouped attention (`enable_gqa`) copies the
    # keys for every head, at half the speed on a CPU.
    folded = queries.reshape(batch, width, config.num_kv_heads, config.group, config.head_dim)
    folded = folded.transpose(1, 2).flatten(2, 3)
    out: Tensor = F.scaled_dot_product_attention(folded, view.keys(index), view.values(index), attn_mask=view.mask)
    return out.view(batch, config.num_kv_heads, width, -1).transpose(1, 2).reshape(batch * width, -1)


def normalize(config: ModelConfig, x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, config.rms_norm_eps)


def load_layer(
    config: ModelConfig, weight: Callable[[str], Tensor], prefix: str, form: Callable[..., Linear] = linear
) -> Layer:
    """One decoder layer, laid out for decoding. weight: reads a tensor by its full name; form: of its matrices"""
    attention = prefix + "self_attn."

    def turned(kind: str) -> Tensor:
        return interleave(weight(attention + kind), config.head_dim)

    qkv_bias = None
    if config.qkv_bias:
        qkv_bias = torch.cat([turned("q_proj.bias"), turned("k_proj.bias"), weight(attention + "v_proj.bias")])
    return Layer(
        attention_norm=weight(prefix + "input_layernorm.weight"),
        qkv=form(
            torch.cat([turned("q_proj.weight"), turned("k_proj.weight"), weight(attention + "v_proj.weight")]), qkv_bias
        ),
        query_norm=turned("q_norm.weight") if config.qk_norm else None,
        key_norm=turned("k_norm.weight") if config.qk_norm else None,
        output=form(
            weight(attention + "o_proj.weight"), weight(attention + "o_proj.bias") if config.output_bias else None
        ),
        mlp_norm=weight(prefix + "post_attention_layernorm.weight"),
        gate=form(weight(prefix + "mlp.gate_proj.weight")),
        up=form(weight(prefix + "mlp.up_proj.weight")),
        down=form(weight(prefix + "mlp.down_proj.weight")),
    )
