from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from specbench.demo.convert import FILES, convert


@pytest.fixture
def converted(tiny_model, tmp_path: Path) -> Path:
    directory = tmp_path / "converted"
    directory.mkdir()
    convert(tiny_model.gguf, directory)
    return directory


def test_the_converted_model_computes_what_the_original_does(tiny_model, converted):
    model = AutoModelForCausalLM.from_pretrained(converted, dtype="auto").eval()
    ids = torch.arange(24).view(2, 12)
    with torch.no_grad():
        assert torch.equal(model(ids).logits, tiny_model.original(ids).logits)


def test_weights_are_bfloat16_and_tied_where_the_gguf_has_no_output_layer(tiny_model, converted):
    model = AutoModelForCausalLM.from_pretrained(converted, dtype="auto")
    assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
    assert model.config.tie_word_embeddings == tiny_model.original.config.tie_word_embeddings


def test_the_directory_holds_the_files_of_a_hub_repository_and_nothing_else(converted):
    assert sorted(file.name for file in converted.iterdir()) == sorted(FILES)


def test_merges_special_tokens_and_single_digits_tokenize(converted):
    tokenizer = AutoTokenizer.from_pretrained(converted)
    assert tokenizer.tokenize("ab ab<end>12") == ["ab", "Ġab", "<end>", "1", "2"]
    assert tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False) == "user: hi<end>"


# The real one.


@pytest.fixture(scope="module")
def tokenizer(demo_target: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(demo_target)


def test_the_demo_target_knows_the_capital_of_france_and_stops(demo_target, tokenizer):
    model = AutoModelForCausalLM.from_pretrained(demo_target, dtype="auto")
    question = [{"role": "user", "content": "What is the capital of France?"}]
    ids = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=False)
    output = model.generate(ids, max_new_tokens=24, do_sample=False)[0, ids.shape[1] :]
    assert tokenizer.decode(output) == "The capital of France is Paris.<|im_end|>"


def test_the_demo_target_ends_on_im_end_and_starts_with_its_own_system_prompt(demo_target, tokenizer):
    model_config = AutoModelForCausalLM.from_pretrained(demo_target).generation_config
    assert tokenizer.convert_ids_to_tokens(model_config.eos_token_id) == "<|im_end|>"
    assert tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    ) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_digits_stand_alone_and_leave_the_spaces_before_them_together(tokenizer):
    # SmolLM2 splits digits off before anything else; a plain GPT-2 split would give the last space to the number.
    assert tokenizer.tokenize("in\n  2024") == ["in", "ĊĠĠ", "2", "0", "2", "4"]


# Not control characters: SmolLM2's vocabulary has no token for six of those bytes.
@given(st.text(st.characters(exclude_categories=["C"])))
def test_any_printable_text_survives_the_tokenizer(tokenizer, text):
    ids = tokenizer(text, split_special_tokens=True).input_ids
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text
