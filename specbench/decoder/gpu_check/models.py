"""Models of known shapes with random weights: speed does not depend on what the weights say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specbench.decoder.config import ModelConfig
from specbench.decoder.models.llama import Llama

_LLAMA: dict[str, Any] = {"model_type": "llama", "rms_norm_eps": 1e-5, "rope_theta": 500_000.0}


def _shape(
    hidden: int, ffn: int, layers: int, heads: int, kv_heads: int, vocab: int, tied: bool, length: int = 8192
) -> dict[str, Any]:
    return {
        **_LLAMA,
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "vocab_size": vocab,
        "tie_word_embeddings": tied,
        "max_position_embeddings": length,
    }


LLAMA_8B = _shape(4096, 14336, 32, 32, 8, 128_256, tied=False)
LLAMA_1B = _shape(2048, 8192, 16, 32, 8, 128_256, tied=True)
"""Llama-3.1-8B and Llama-3.2-1B (their RoPE scaling, which costs nothing per step, left out)."""

ONE_LAYER_1B = {**LLAMA_1B, "num_hidden_layers": 1}
"""A drafter for the 1B model of about the size of an EAGLE head."""

SMALL = _shape(256, 512, 4, 8, 2, 1_000, tied=True, length=512)
SMALL_DRAFT = {**SMALL, "num_hidden_layers": 1}
"""Small enough to be exact in float32 in no time, large enough that near ties are rare."""

MARKOV = _shape(32, 64, 2, 4, 2, 16, tied=True, length=64)
"""A vocabulary so small that the distribution of three tokens can be enumerated."""

TINY = _shape(64, 128, 2, 4, 2, 300, tied=True, length=1024)
TINY_DRAFT = {**TINY, "num_hidden_layers": 1}
"""In the place of the large ones with `--tiny`: for machines without a GPU, whose times mean nothing."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and a drafter for it, by name and shape."""

    target: str
    target_shape: dict[str, Any]
    drafter: str
    drafter_shape: dict[str, Any]


PAIRS = (
    Pair("Llama-3.2-1B", LLAMA_1B, "one layer of it", ONE_LAYER_1B),
    Pair("Llama-3.1-8B", LLAMA_8B, "Llama-3.2-1B", LLAMA_1B),
)
TINY_PAIRS = (Pair("tiny", TINY, "tiny draft", TINY_DRAFT),)


class RandomWeights:
    """Normal numbers for every matrix, ones for every norm, made where they are needed; the same for the same seed.

    spread: standard deviation times the square root of a matrix's inputs: 1 keeps the size of what passes through
    fading: layers after the first add little, as in trained models, and so the first alone drafts well
    """

    def __init__(
        self, shape: dict[str, Any], dtype: torch.dtype, device: torch.device, spread: float, fading: bool
    ) -> None:
        self._shape, self._dtype, self._device = shape, dtype, device
        self._spread, self._fading = spread, fading

    def __contains__(self, name: str) -> bool:
        return False  # no optional tensor

    def size(self, name: str) -> tuple[int, ...]:
        """Of the tensor of this name."""
        s = self._shape
        hidden, ffn, vocab, head = (
            s[key] for key in ("hidden_size", "intermediate_size", "vocab_size", "num_attention_heads")
        )
        kv = hidden // head * s["num_key_value_heads"]
        return {
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
            "norm": (hidden,),
            "embed_tokens": (vocab, hidden),
            "lm_head": (vocab, hidden),
            "q_proj": (hidden, hidden),
            "k_proj": (kv, hidden),
            "v_proj": (kv, hidden),
            "o_proj": (hidden, hidden),
            "gate_proj": (ffn, hidden),
            "up_proj": (ffn, hidden),
            "down_proj": (hidden, ffn),
        }[_kind(name)]

    def tensor(self, name: str) -> Tensor:
        size = self.size(name)
        if len(size) == 1:
            return torch.ones(size, dtype=self._dtype, device=self._device)
        seed = sum(ord(character) * 31**place for place, character in enumerate(name)) % 2**31
        generator = torch.Generator(self._device).manual_seed(seed)
        weight = torch.empty(size, dtype=self._dtype, device=self._device)
        later = self._fading and _kind(name) in ("o_proj", "down_proj") and ".layers.0." not in name
        return weight.normal_(0.0, (0.2 if later else 1.0) * self._spread / size[1] ** 0.5, generator=generator)


def _kind(name: str) -> str:
    return name.removesuffix(".weight").rpartition(".")[2]


def random_llama(
    shape: dict[str, Any],
    dtype: torch.dtype,
    device: torch.device,
    spread: float = 1.0,
    fading: bool = False,
    on_kernels: bool = False,
) -> Llama:
    """The same names have the same weights, so a shape with fewer layers is a pruned copy: a drafter that is often
    right.
    """
    weights = RandomWeights(shape, dtype, device, spread, fading)
    return Llama(ModelConfig.from_fields(shape), weights, dtype, device, on_kernels=on_kernels)
