"""What a forward pass reads and computes, from a model's `config.json`: dense, grouped-query, mixture of experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specbench.errors import SpecbenchError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes that a forward pass depends on.

    layers, heads, kv_heads, head_dim, hidden: of the decoder
    shared:  parameters that every pass reads: attention, norms, routers, dense layers, output head
    experts: parameters of all routed experts together; 0 for a dense model
    routed, expert_count: experts that a token goes to, of how many in a layer
    weight_bytes, kv_bytes: per parameter, per cached value
    """

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    shared: float
    experts: float = 0.0
    routed: int = 1
    expert_count: int = 1
    weight_bytes: float = 2.0
    kv_bytes: float = 2.0

    @classmethod
    def of(cls, config: Mapping[str, Any], weight_bytes: float = 2.0, kv_bytes: float = 2.0) -> ModelShape:
        """From a Hugging Face configuration; of a model with a vision part, its text part.

        Raises SpecbenchError naming the field that is missing or no positive whole number.
        """
        text = config.get("text_config", config)
        if "kv_lora_rank" in text:
            raise SpecbenchError("config.json: latent attention (kv_lora_rank) is not modelled yet.")
        layers, heads, hidden = (
            _size(text, name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size")
        )
        kv_heads = _size(text, "num_key_value_heads", heads)
        head_dim = _size(text, "head_dim", hidden // heads)
        attention = hidden * head_dim * 2 * (heads + kv_heads)
        head = hidden * _size(text, "vocab_size")
        count = next(
            (text[name] for name in ("num_experts", "num_local_experts", "n_routed_experts") if text.get(name)), 0
        )
        dense = hidden * 3 * _size(text, "intermediate_size")
        plain = min(layers, int(text.get("first_k_dense_replace") or len(text.get("mlp_only_layers") or ())))
        sparse = layers - plain if count else 0
        width = _size(text, "moe_intermediate_size", _size(text, "intermediate_size")) if count else 0
        always = hidden * (count + 3 * width * int(text.get("n_shared_experts") or 0))
        return cls(
            layers=layers,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            hidden=hidden,
            shared=float(layers * attention + (layers - sparse) * dense + sparse * always + head),
            experts=float(sparse * count * 3 * hidden * width),
            routed=_size(text, "num_experts_per_tok") if count else 1,
            expert_count=int(count) or 1,
            weight_bytes=weight_bytes,
            kv_bytes=kv_bytes,
        )

    @property
    def kv_bytes_per_token(self) -> float:
        """Bytes that the cache keeps of a token."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.kv_bytes

    @property
    def active(self) -> float:
        """Parameters that a token is multiplied with."""
        return self.shared + self.experts * self.routed / self.expert_count

    def bytes_read(self, tokens: ArrayLike, context: ArrayLike) -> Floats:
        """Weights and cache that a pass over `tokens` reads, whose sequences hold `context` tokens together.

        Tokens choose experts independently and evenly, so that (1 − k/E)ⁿ of them are chosen by none of n tokens.
        """
        touched = 1 - (1 - self.routed / self.expert_count) ** np.asarray(tokens, float)
        weights = (self.shared + self.experts * touched) * self.weight_bytes
        return np.asarray(weights + self.kv_bytes_per_token * np.asarray(context, float))

    def flops(self, tokens: ArrayLike, context_each: ArrayLike) -> Floats:
        """Of a pass over `tokens`, each of which attends to `context_each` tokens."""
        attention = 4 * self.layers * self.heads * self.head_dim * np.asarray(context_each, float)
        return np.asarray((2 * self.active + attention) * np.asarray(tokens, float))


def _size(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    value = config.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or value < 1:
        raise SpecbenchError(f"config.json: {name} must be a whole number above 0; got {value!r}.")
    return value


STAND_IN = ModelShape(
    layers=32, heads=32, kv_heads=8, head_dim=128, hidden=4096, shared=7.5e9, weight_bytes=2.0, kv_bytes=2.0
)
"""A dense model of usual proportions, for one whose configuration is not known: only on an unknown machine, whose rates
then take up the difference in size."""
