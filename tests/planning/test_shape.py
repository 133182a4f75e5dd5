"""Shapes read from `config.json`: parameters, cache, and what a pass over n tokens reads."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.planning.shape import ModelShape

LLAMA_8B = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
QWEN3_235B = {
    "hidden_size": 4096,
    "num_hidden_layers": 94,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 12288,
    "moe_intermediate_size": 1536,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "vocab_size": 151936,
}
MIXTRAL_8X7B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
}


@pytest.mark.parametrize(
    ("config", "billions", "active_billions"),
    [(LLAMA_8B, 8.03, 8.03), (QWEN3_235B, 235.1, 22.2), (MIXTRAL_8X7B, 46.7, 12.9)],
    ids=["Llama-3.1-8B", "Qwen3-235B-A22B", "Mixtral-8x7B"],
)
def test_parameters_are_the_published_ones(config: dict[str, int], billions: float, active_billions: float) -> None:
    """What a pass reads leaves out the input embedding, of which it reads rows."""
    shape = ModelShape.of(config)
    embedding = config["vocab_size"] * config["hidden_size"]
    assert (shape.shared + shape.experts + embedding) / 1e9 == pytest.approx(billions, rel=0.002)
    assert (shape.active + embedding) / 1e9 == pytest.approx(active_billions, rel=0.005)


def test_cache_of_a_token_in_two_bytes() -> None:
    assert ModelShape.of(LLAMA_8B).kv_bytes_per_token == 131_072


def test_a_vision_models_text_part_counts() -> None:
    assert ModelShape.of({"text_config": LLAMA_8B, "vision_config": {}}) == ModelShape.of(LLAMA_8B)


def test_one_token_reads_the_experts_it_is_routed_to_and_many_read_all() -> None:
    shape = ModelShape.of(QWEN3_235B)
    assert shape.bytes_read(1, 0) == pytest.approx(2 * shape.active)
    assert shape.bytes_read(10_000, 0) == pytest.approx(2 * (shape.shared + shape.experts))


def test_a_dense_model_reads_all_weights_for_any_token() -> None:
    shape = ModelShape.of(LLAMA_8B, weight_bytes=1)
    assert shape.bytes_read(1, 0) == shape.bytes_read(512, 0) == shape.shared


@given(st.sampled_from([LLAMA_8B, QWEN3_235B]), st.integers(1, 4000), st.integers(0, 100_000))
def test_more_tokens_or_context_never_read_or_compute_less(config: dict[str, int], n: int, context: int) -> None:
    shape = ModelShape.of(config)
    assert shape.bytes_read(n + 1, context) >= shape.bytes_read(n, context)
    assert shape.bytes_read(n, context + 1) > shape.bytes_read(n, context)
    assert shape.flops(n + 1, context) > shape.flops(n, context)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": None}, "hidden_size must be a whole number above 0; got None"),
        ({"vocab_size": "many"}, "vocab_size must be a whole number above 0; got 'many'"),
        ({"kv_lora_rank": 512}, "latent attention"),
    ],
)
def test_a_configuration_that_says_too_little_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(SpecbenchError, match=said):
        ModelShape.of({**LLAMA_8B, **change})
