"""Random EAGLE-1, Medusa and MTP heads for a tiny target, as published."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

Tensors = dict[str, torch.Tensor]


def eagle_tensors(target: dict[str, Any], seed: int = 0) -> Tensors:
    random, h = _Random(seed), target["hidden_size"]
    return {
        "fc.weight": random.matrix(h, 2 * h),
        "fc.bias": random.matrix(1, h)[0],
        **_layer(random, target, "layers.0."),
    }


def mtp_tensors(target: dict[str, Any], seed: int = 0) -> Tensors:
    """In Qwen's layout."""
    random, h = _Random(seed), target["hidden_size"]
    return {
        "mtp.fc.weight": random.matrix(h, 2 * h),
        "mtp.pre_fc_norm_embedding.weight": random.norm(h),
        "mtp.pre_fc_norm_hidden.weight": random.norm(h),
        "mtp.norm.weight": random.norm(h),
        "mtp.layers.0.input_layernorm.weight": random.norm(h),
        **_layer(random, target, "mtp.layers.0."),
    }


def medusa_tensors(target: dict[str, Any], heads: int, tokens: Sequence[int] | None = None, seed: int = 0) -> Tensors:
    """In vLLM's layout. tokens: what they speak; all by default"""
    random, h = _Random(seed), target["hidden_size"]
    tensors = {"token_map": torch.tensor(tokens)} if tokens else {}
    for k in range(heads):
        tensors[f"blocks.{k}.layers.0.weight"] = random.matrix(h, h)
        tensors[f"blocks.{k}.layers.0.bias"] = random.matrix(1, h)[0]
        tensors[f"lm_heads.{k}.weight"] = random.matrix(len(tokens or range(target["vocab_size"])), h)
    return tensors


QWEN_TO_SPECULATORS = {
    "mtp.fc": "mtp_layers.0.input_proj",
    "mtp.pre_fc_norm_embedding": "mtp_layers.0.token_layernorm",
    "mtp.pre_fc_norm_hidden": "mtp_layers.0.hidden_layernorm",
    "mtp.norm": "mtp_layers.0.final_layernorm",
    "mtp.layers.0": "mtp_layers.0",
}


def speculators(tensors: Tensors) -> Tensors:
    """MTP tensors under the names of vLLM's speculators."""
    renamed = {}
    for name, tensor in tensors.items():
        old = next(old for old in QWEN_TO_SPECULATORS if name.startswith(old + "."))
        renamed[QWEN_TO_SPECULATORS[old] + name.removeprefix(old)] = tensor
    return renamed


def faster_decoding(tensors: Tensors) -> Tensors:
    """Medusa tensors under the names of FasterDecoding's medusa_lm_head.pt."""
    renamed = {}
    for name, tensor in tensors.items():
        kind, k, *rest = name.split(".")
        renamed[f"{k}.0.linear.{rest[-1]}" if kind == "blocks" else f"{k}.1.weight"] = tensor
    return renamed


def save(directory: Path, tensors: Tensors, target: dict[str, Any], method: str, **fields: Any) -> Path:
    """As safetensors, with the config.json of the method's own layout."""
    directory.mkdir(parents=True, exist_ok=True)
    save_file(tensors, directory / "model.safetensors")
    layer = {**target, "num_hidden_layers": 1}
    config = {
        "eagle": {**layer, "bias": True},
        "mtp": {"speculators_model_type": "mtp", "transformer_layer_config": layer},
        "medusa": {"model_type": "medusa", "num_heads": 2},
    }[method]
    (directory / "config.json").write_text(json.dumps({**config, **fields}))
    return directory


def _layer(random: _Random, target: dict[str, Any], prefix: str) -> Tensors:
    h, mlp = target["hidden_size"], target["intermediate_size"]
    size = h // target["num_attention_heads"]
    heads, kv_heads = target["num_attention_heads"], target["num_key_value_heads"]
    return {
        f"{prefix}self_attn.q_proj.weight": random.matrix(heads * size, h),
        f"{prefix}self_attn.k_proj.weight": random.matrix(kv_heads * size, h),
        f"{prefix}self_attn.v_proj.weight": random.matrix(kv_heads * size, h),
        f"{prefix}self_attn.o_proj.weight": random.matrix(h, heads * size),
        f"{prefix}mlp.gate_proj.weight": random.matrix(mlp, h),
        f"{prefix}mlp.up_proj.weight": random.matrix(mlp, h),
        f"{prefix}mlp.down_proj.weight": random.matrix(h, mlp),
        f"{prefix}post_attention_layernorm.weight": random.norm(h),
    }


class _Random:
    def __init__(self, seed: int) -> None:
        self._generator = torch.Generator().manual_seed(seed)

    def matrix(self, rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=self._generator) * 0.3

    def norm(self, size: int) -> torch.Tensor:
        return 1 + 0.2 * torch.randn(size, generator=self._generator)
