"""Configs of the Llama family are read as transformers reads them; the others are refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specbench.decoder.config import Llama3Scaling, ModelConfig

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
}
SCALING = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., ModelConfig]:
    def read(**fields: Any) -> ModelConfig:
        (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **fields}))
        return ModelConfig.from_directory(tmp_path)

    return read


def test_llama_2_has_a_key_value_head_per_query_head(read: Callable[..., ModelConfig]) -> None:
    config = read()
    assert (config.num_kv_heads, config.group, config.head_dim) == (4, 1, 16)
    assert (config.rope_theta, config.rope_scaling) == (10_000.0, None)
    assert not any((config.tied_embeddings, config.qkv_bias, config.output_bias, config.qk_norm))


def test_grouped_heads_and_an_explicit_head_dim(read: Callable[..., ModelConfig]) -> None:
    config = read(num_key_value_heads=2, head_dim=32, tie_word_embeddings=True)
    assert (config.group, config.head_dim, config.tied_embeddings) == (2, 32, True)


@pytest.mark.parametrize(
    "fields",
    [
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "llama3", **SCALING}},
        {"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", **SCALING}},
    ],
    ids=["transformers 4", "transformers 5"],
)
def test_llama_3_scaling_in_both_spellings(read: Callable[..., ModelConfig], fields: dict[str, Any]) -> None:
    config = read(**fields)
    assert (config.rope_theta, config.rope_scaling) == (5e5, Llama3Scaling(8.0, 1.0, 4.0, 8192))


def test_qwen_2_has_biases_and_qwen_3_has_norms(read: Callable[..., ModelConfig]) -> None:
    qwen2, qwen3 = read(model_type="qwen2"), read(model_type="qwen3", attention_bias=False)
    assert (qwen2.qkv_bias, qwen2.output_bias, qwen2.qk_norm) == (True, False, False)
    assert (qwen3.qkv_bias, qwen3.output_bias, qwen3.qk_norm) == (False, False, True)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model_type": "gemma3"}, "model_type 'gemma3' is not one"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"use_sliding_window": True}, "sliding-window"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantized weights"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "rope scaling 'yarn'"),
        ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "lacks the field 'low_freq_factor'"),
        ({"num_attention_heads": 4, "num_key_value_heads": 3}, "must be a multiple"),
    ],
)
def test_what_is_not_supported_is_named(read: Callable[..., ModelConfig], fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(**fields)


def test_a_missing_field_or_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no config\.json"):
        ModelConfig.from_directory(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="can't be read as JSON"):
        ModelConfig.from_directory(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ValueError, match="lacks the field"):
        ModelConfig.from_directory(tmp_path)
