"""Random EAGLE-3 heads for a tiny target, in every layout and with every option."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, VOCAB, LAYERS = 32, 4, 2, 8, 64, 258, 8
OPTIONS = ("norm_before_fc", "fc_norm", "norm_before_residual", "norm_output")


@pytest.fixture(scope="session")
def deep_target(save_llama: Callable[..., Path]) -> Path:
    """A tiny target with as many layers as three taps need."""
    return save_llama(num_hidden_layers=LAYERS)


@pytest.fixture(scope="session")
def save_head(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Save a random head that can say `tokens`; the same seed gives the same weights in both layouts."""

    def save(tokens: Sequence[int], layout: str = "safeailab", seed: int = 0, **options: Any) -> Path:
        directory = tmp_path_factory.mktemp("head")
        prefix = "midlayer." if layout == "safeailab" else "layers.0."
        save_file(_tensors(tokens, prefix, seed, options), directory / "model.safetensors")
        config = _safeailab_config if layout == "safeailab" else _speculators_config
        (directory / "config.json").write_text(json.dumps(config(len(tokens), options)))
        return directory

    return save


def _tensors(tokens: Sequence[int], prefix: str, seed: int, options: dict[str, Any]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) * 0.3

    def norm(size: int) -> torch.Tensor:
        return 1 + 0.2 * torch.randn(size, generator=generator)

    ids = torch.tensor(sorted(tokens))
    tensors = {
        "fc.weight": matrix(HIDDEN, 3 * HIDDEN),
        f"{prefix}self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, 2 * HIDDEN),
        f"{prefix}self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, 2 * HIDDEN),
        f"{prefix}self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, 2 * HIDDEN),
        f"{prefix}self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
        f"{prefix}mlp.gate_proj.weight": matrix(MLP, HIDDEN),
        f"{prefix}mlp.up_proj.weight": matrix(MLP, HIDDEN),
        f"{prefix}mlp.down_proj.weight": matrix(HIDDEN, MLP),
        f"{prefix}input_layernorm.weight": norm(HIDDEN),
        f"{prefix}hidden_norm.weight": norm(HIDDEN),
        f"{prefix}post_attention_layernorm.weight": norm(HIDDEN),
        "norm.weight": norm(HIDDEN),
        "lm_head.weight": matrix(len(ids), HIDDEN),
        "d2t": ids - torch.arange(len(ids)),
        "t2d": torch.zeros(VOCAB, dtype=torch.bool).index_fill_(0, ids, True),
    }
    if options.get("norm_before_fc"):
        tensors["input_norm.weight"] = norm(3 * HIDDEN)
    if options.get("fc_norm"):
        tensors.update({f"fc_norm.{i}.weight": norm(HIDDEN) for i in range(3)})
    return tensors


LAYER = {
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": MLP,
    "num_hidden_layers": 1,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 256,
    "vocab_size": VOCAB,
}


def _safeailab_config(draft_vocab_size: int, options: dict[str, Any]) -> dict[str, Any]:
    return {"architectures": ["LlamaForCausalLMEagle3"], **LAYER, "draft_vocab_size": draft_vocab_size, **options}


def _speculators_config(draft_vocab_size: int, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": draft_vocab_size,
        "transformer_layer_config": LAYER,
        "norm_before_residual": False,
        **options,
    }
