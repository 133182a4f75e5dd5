"""The decoder computes what transformers computes, for each family, and however the tokens are fed to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from specbench.decoder.cache import KVCache
from specbench.decoder.models import prefill as prefill_module
from specbench.decoder.models.llama import Llama
from specbench.decoder.models.prefill import prefill

CPU = torch.device("cpu")
SHAPE: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "initializer_range": 0.2,
}
LLAMA_3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
FAMILIES: dict[str, Callable[[], PreTrainedModel]] = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE)),
    "llama, tied, with biases": lambda: LlamaForCausalLM(
        LlamaConfig(**SHAPE, tie_word_embeddings=True, attention_bias=True)
    ),
    "llama 3 rope": lambda: LlamaForCausalLM(LlamaConfig(**SHAPE, rope_parameters=LLAMA_3)),
    "qwen 2": lambda: Qwen2ForCausalLM(Qwen2Config(**SHAPE)),
    "qwen 3, wide heads": lambda: Qwen3ForCausalLM(Qwen3Config(**SHAPE, head_dim=16)),
}


def randomize(model: PreTrainedModel) -> None:
    """Biases and norms start as zeros and ones, which would hide that they are left out."""
    torch.manual_seed(1)
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name:
            torch.nn.init.normal_(parameter, mean=float("norm" in name), std=0.3)


@pytest.fixture(params=FAMILIES)
def reference(request: pytest.FixtureRequest) -> PreTrainedModel:
    torch.manual_seed(0)
    model = FAMILIES[request.param]()
    randomize(model)
    return model.eval()


@pytest.fixture
def model(reference: PreTrainedModel, tmp_path: Path) -> Llama:
    reference.save_pretrained(tmp_path)
    return Llama.from_directory(tmp_path, torch.float32, CPU)


def cache_for(model: Llama, rows: int = 1, slots: int = 64) -> KVCache:
    return KVCache(model.config, rows, slots, model.dtype, CPU)


@torch.inference_mode()
def test_logits_and_hidden_states_are_those_of_transformers(reference: PreTrainedModel, model: Llama) -> None:
    tokens = torch.randint(0, 96, (1, 40), generator=torch.Generator().manual_seed(2))
    expected = reference(tokens, output_hidden_states=True)
    positions = torch.arange(40)[None]
    view = cache_for(model).enter(slice(0, 1), positions, positions, used=40)
    forward = model.forward(tokens, view, logits=40, taps=(0, 2, 3))
    torch.testing.assert_close(forward.logits, expected.logits, atol=2e-4, rtol=1e-4)
    assert forward.hidden is not None
    for index, layer in enumerate((0, 2, 3)):
        torch.testing.assert_close(forward.hidden[:, :, index], expected.hidden_states[layer], atol=2e-4, rtol=1e-4)


@torch.inference_mode()
def test_ragged_rows_fed_piecewise_equal_whole_sequences(reference: PreTrainedModel, model: Llama) -> None:
    generator = torch.Generator().manual_seed(3)
    texts = [torch.randint(0, 96, (n,), generator=generator).tolist() for n in (5, 17, 9)]
    cache = cache_for(model, rows=3)
    for row, text in enumerate(texts):
        prefill(model, cache, row, text, logits=0)
    for width in (1, 4, 2):
        new = torch.randint(0, 96, (3, width), generator=generator)
        positions = torch.tensor([[len(text)] for text in texts]) + torch.arange(width)
        used = max(map(len, texts)) + width
        logits = model.forward(new, cache.enter(slice(0, 3), positions, positions, used), logits=width).logits
        for row, text in enumerate(texts):
            text += new[row].tolist()
            expected = reference(torch.tensor([text])).logits[0, -width:]
            torch.testing.assert_close(logits[row], expected, atol=3e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_prompt_in_chunks_equals_the_prompt_at_once(model: Llama, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = list(range(30))
    at_once = prefill(model, cache_for(model), 0, prompt, logits=1, taps=(1,))
    monkeypatch.setattr(prefill_module, "CHUNK", 7)
    in_chunks = prefill(model, cache_for(model), 0, prompt, logits=1, taps=(1,))
    torch.testing.assert_close(in_chunks.logits, at_once.logits, atol=1e-4, rtol=1e-4)
    assert at_once.hidden is not None
    assert in_chunks.hidden is not None
    torch.testing.assert_close(in_chunks.hidden, at_once.hidden, atol=1e-4, rtol=1e-4)


@torch.inference_mode()
def test_bfloat16_is_the_same_model_less_precisely(reference: PreTrainedModel, tmp_path: Path) -> None:
    reference.save_pretrained(tmp_path)
    half = Llama.from_directory(tmp_path, torch.bfloat16, CPU)
    prompt = list(range(20))
    ours = prefill(half, cache_for(half), 0, prompt, logits=1).logits[0, 0].float()
    exact = reference(torch.tensor([prompt])).logits[0, -1]
    assert torch.corrcoef(torch.stack([ours, exact]))[0, 1] > 0.999


def test_weights_bytes_count_every_parameter_once(reference: PreTrainedModel, model: Llama) -> None:
    assert model.weights_bytes == 4 * sum(p.numel() for p in reference.parameters())
