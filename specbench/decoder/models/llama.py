"""The Llama-family decoder (Llama, SmolLM2, Qwen2, Qwen3): rows of a few new tokens each, over a static cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from specbench.decoder.cache import CacheView
from specbench.decoder.checkpoint import Checkpoint, Weights
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.linear import Linear, linear
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


class Llama:
    """A target or a draft model. Weights are laid out for decoding once, at load; nothing is trained here.

    weights_bytes: the model's parameters in `dtype`, a tied head counted once
    token_ids:     [V_d] int64, ascending: the token that each logit stands for, where the head speaks only a part of
                   the vocabulary (`d2t` in the checkpoint: token less number); None for an ordinary model
    """

    def __init__(self, config: ModelConfig, checkpoint: Weights, dtype: torch.dtype, device: torch.device) -> None:
        self.config, self.dtype, self.device = config, dtype, device
        self.weights_bytes = 0

        def weight(name: str) -> Tensor:
            tensor = checkpoint.tensor(name).to(device, dtype)
            self.weights_bytes += tensor.nbytes
            return tensor

        self.embeddings = weight("model.embed_tokens.weight")
        self.layers = [load_layer(config, weight, f"model.layers.{i}.") for i in range(config.num_layers)]
        self.norm = weight("model.norm.weight")
        self.head = linear(self.embeddings if config.tied_embeddings else weight("lm_head.weight"))
        self.token_ids: Tensor | None = None
        if "d2t" in checkpoint:
            offsets = checkpoint.tensor("d2t").to(device)
            self.token_ids = offsets + torch.arange(len(offsets), device=device)
        self.frequencies = frequencies(config).to(device)

    @classmethod
    def from_directory(cls, directory: str | Path, dtype: torch.dtype, device: torch.device) -> Llama:
        """Raises ValueError for a config or weights that can't be read."""
        return cls(ModelConfig.from_directory(directory), Checkpoint(directory), dtype, device)

    def forward(self, tokens: Tensor, view: CacheView, logits: int, taps: Sequence[int] = ()) -> Forward:
        """Run new tokens through the layers and enter them in the cache.

        tokens [B, w] int64, at `view`'s slots and positions · logits: of how many of the last columns logits are wanted
        · taps: the layers whose input is wanted, ascending; the number of layers means what leaves the last one, before
        the final norm
        """
        x = F.embedding(tokens.flatten(), self.embeddings)
        rotation = rotations(self.frequencies, view.positions.flatten())
        hidden = []
        for index, layer in enumerate(self.layers):
            if index in taps:
                hidden.append(x)
            h = normalize(self.config, x, layer.attention_norm)
            x = layer.output.plus(attend(self.config, layer, index, h, rotation, view), x)
            h = normalize(self.config, x, layer.mlp_norm)
            x = layer.down.plus(layer.up.times(h, layer.gate.silu(h)), x)
        if len(self.layers) in taps:
            hidden.append(x)
        shape = tokens.shape
        last = x.view(*shape, -1)[:, shape[1] - logits :]
        return Forward(
            logits=self._logits(last),
            hidden=torch.stack(hidden, 1).view(*shape, len(hidden), -1) if hidden else None,
        )

    def _logits(self, x: Tensor) -> Tensor:
        # x [B, k, hidden_size] -> [B, k, V]
        if x.shape[1] == 0:
            return x.new_empty(*x.shape[:2], self.config.vocab_size)
        return self.head(normalize(self.config, x, self.norm).flatten(0, 1)).view(*x.shape[:2], -1)


def attend(config: ModelConfig, layer: Layer, index: int, x: Tensor, rotation: Tensor, view: CacheView) -> Tensor:
    """Enter the new tokens' keys and values into layer `index` of the cache, and attend to what each may see.

    x [B * w, in] -> [B * w, heads * head_dim]
    """
    batch, width = view.positions.shape
    qkv = layer.qkv(x)
    heads = qkv.view(batch * width, -1, config.head_dim)
    queries, keys = heads[:, : config.num_heads], heads[:, config.num_heads : config.num_heads + config.num_kv_heads]
    if layer.query_norm is not None and layer.key_norm is not None:
        queries.copy_(normalize(config, queries, layer.query_norm))
        keys.copy_(normalize(config, keys, layer.key_norm))
    rotate(heads[:, : config.num_heads + config.num_kv_heads], rotation)
    view.write(index, qkv[:, config.num_heads * config.head_dim :])
    # The heads of a group become rows of one query matrix: PyTorch's grouped attention (`enable_gqa`) copies the
    # keys for every head, at half the speed on a CPU.
    folded = queries.reshape(batch, width, config.num_kv_heads, config.group, config.head_dim)
    folded = folded.transpose(1, 2).flatten(2, 3)
    out: Tensor = F.scaled_dot_product_attention(folded, view.keys(index), view.values(index), attn_mask=view.mask)
    return out.view(batch, config.num_kv_heads, width, -1).transpose(1, 2).reshape(batch * width, -1)


def normalize(config: ModelConfig, x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, config.rms_norm_eps)


def load_layer(config: ModelConfig, weight: Callable[[str], Tensor], prefix: str) -> Layer:
    """One decoder layer, laid out for decoding. weight: reads a tensor by its full name"""
    attention = prefix + "self_attn."

    def turned(kind: str) -> Tensor:
        return interleave(weight(attention + kind), config.head_dim)

    qkv_bias = None
    if config.qkv_bias:
        qkv_bias = torch.cat([turned("q_proj.bias"), turned("k_proj.bias"), weight(attention + "v_proj.bias")])
    return Layer(
        attention_norm=weight(prefix + "input_layernorm.weight"),
        qkv=linear(
            torch.cat([turned("q_proj.weight"), turned("k_proj.weight"), weight(attention + "v_proj.weight")]), qkv_bias
        ),
        query_norm=turned("q_norm.weight") if config.qk_norm else None,
        key_norm=turned("k_norm.weight") if config.qk_norm else None,
        output=linear(
            weight(attention + "o_proj.weight"), weight(attention + "o_proj.bias") if config.output_bias else None
        ),
        mlp_norm=weight(prefix + "post_attention_layernorm.weight"),
        gate=linear(weight(prefix + "mlp.gate_proj.weight")),
        up=linear(weight(prefix + "mlp.up_proj.weight")),
        down=linear(weight(prefix + "mlp.down_proj.weight")),
    )
