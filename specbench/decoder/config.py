"""The shape of a Llama-family model, read from the `config.json` of a Hugging Face directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL_TYPES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Llama 3.1's stretching of the rotary wavelengths; `original_length` is in tokens, the rest are factors."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_length: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a Llama-family decoder needs to know of itself.

    qkv_bias, output_bias: the attention's projections carry a bias
    qk_norm:      queries and keys are RMS-normalised per head (Qwen3)
    rope_scaling: None, or Llama 3.1's rule
    max_length:   the longest sequence that the model was made for, in tokens
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Llama3Scaling | None
    tied_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    qk_norm: bool
    max_length: int

    @property
    def group(self) -> int:
        """Query heads per key-value head."""
        return self.num_heads // self.num_kv_heads

    @classmethod
    def from_directory(cls, directory: str | Path) -> ModelConfig:
        """Read `directory`/config.json. Raises ValueError for what this decoder can't run, naming the field."""
        path = Path(directory) / "config.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ValueError(f"{directory} has no config.json. Give the directory of a Hugging Face model.") from None
        except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} can't be read as JSON: {error}.") from None
        if not isinstance(raw, dict):
            raise ValueError(f"{path} must hold a JSON object.")
        try:
            return cls.from_fields(raw)
        except KeyError as missing:
            raise ValueError(f"{path} lacks the field {missing}.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_fields(cls, raw: Mapping[str, Any]) -> ModelConfig:
        """Of a config's content. Raises ValueError for what this decoder can't run, KeyError for a missing field."""
        _refuse_unsupported(raw)
        theta, scaling = _rope(raw)
        heads, kind = raw["num_attention_heads"], raw["model_type"]
        attention_bias = bool(raw.get("attention_bias", False))
        kv_heads = raw.get("num_key_value_heads") or heads
        if heads % kv_heads:
            raise ValueError(f"num_attention_heads ({heads}) must be a multiple of num_key_value_heads ({kv_heads}).")
        return cls(
            vocab_size=raw["vocab_size"],
            hidden_size=raw["hidden_size"],
            intermediate_size=raw["intermediate_size"],
            num_layers=raw["num_hidden_layers"],
            num_heads=heads,
            num_kv_heads=kv_heads,
            head_dim=raw.get("head_dim") or raw["hidden_size"] // heads,
            rms_norm_eps=raw["rms_norm_eps"],
            rope_theta=theta,
            rope_scaling=scaling,
            tied_embeddings=bool(raw.get("tie_word_embeddings", False)),
            # Qwen2 has a bias on q, k and v whatever its config says.
            qkv_bias=kind == "qwen2" or attention_bias,
            output_bias=kind != "qwen2" and attention_bias,
            qk_norm=kind == "qwen3",
            max_length=raw["max_position_embeddings"],
        )


def _refuse_unsupported(raw: Mapping[str, Any]) -> None:
    if (kind := raw["model_type"]) not in MODEL_TYPES:
        raise ValueError(f"model_type {kind!r} is not one that the reference decoder runs: {', '.join(MODEL_TYPES)}.")
    if raw.get("quantization_config"):
        raise ValueError("quantized weights can't be read. Give the directory of the bf16, fp16 or fp32 model.")
    if (activation := raw.get("hidden_act", "silu")) != "silu":
        raise ValueError(f"hidden_act {activation!r} is not supported, only silu.")
    if raw.get("mlp_bias"):
        raise ValueError("mlp_bias is not supported.")
    if raw.get("use_sliding_window") or any(t != "full_attention" for t in raw.get("layer_types") or ()):
        raise ValueError("sliding-window attention is not supported.")


def _rope(raw: Mapping[str, Any]) -> tuple[float, Llama3Scaling | None]:
    """The rotary base and its scaling, from `rope_parameters` (transformers 5) or `rope_theta` and `rope_scaling`."""
    rope = raw.get("rope_parameters") or raw.get("rope_scaling") or {}
    theta = float(rope.get("rope_theta") or raw.get("rope_theta") or 10_000.0)
    if rope.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1)) != 1:
        raise ValueError("partial_rotary_factor is not supported.")
    match rope.get("rope_type", rope.get("type", "default")):
        case "default":
            return theta, None
        case "llama3":
            return theta, Llama3Scaling(
                factor=rope["factor"],
                low_freq_factor=rope["low_freq_factor"],
                high_freq_factor=rope["high_freq_factor"],
                original_length=rope["original_max_position_embeddings"],
            )
        case other:
            raise ValueError(f"rope scaling {other!r} is not supported, only llama3.")
