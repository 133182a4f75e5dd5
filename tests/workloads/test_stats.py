from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.workloads import Prompt, Workload
from specbench.workloads.stats import HISTOGRAM_BINS, WorkloadStats, repeated_ngrams, tokens, words, workload_stats


def workload(*prompts: Prompt) -> Workload:
    return Workload("w", Path("w.jsonl"), prompts, "")


def chat(id: str, *contents: str, category: str | None = None) -> Prompt:
    roles = ("user", "assistant") * len(contents)
    messages = tuple({"role": role, "content": content} for role, content in zip(roles, contents, strict=False))
    return Prompt(id, messages=messages, category=category)


def test_counts_categories_turns_and_duplicates():
    stats = workload_stats(
        workload(
            chat("a", "Hi there", category="x"),
            chat("b", "Hi", "Hello.", "Bye now", category="y"),
            chat("c", "Hi there", category="y"),
            Prompt("d", prompt="Hi there"),
        ),
        words,
        "words",
    )
    assert (stats.prompts, stats.multi_turn, stats.duplicates) == (4, 1, 1)
    assert stats.categories == {"y": 2, "x": 1, "(none)": 1}
    assert stats.lengths == (2, 4, 2, 2)
    assert stats.summary == {"min": 2, "median": 2, "mean": 2.5, "max": 4}


def test_repetition_is_the_share_of_4_grams_that_stood_earlier():
    assert repeated_ngrams("abcd") == 0
    assert repeated_ngrams("abcdabcd") == 1 / 5  # abcd bcda cdab dabc abcd
    assert repeated_ngrams("aaaaaa") == 2 / 3
    assert repeated_ngrams("abc") == 0


@given(st.lists(st.integers(0, 3)))
def test_repetition_is_a_share_and_doubling_a_text_raises_it(sequence):
    once = repeated_ngrams(sequence)
    assert 0 <= once < 1
    if len(sequence) >= 4:
        assert repeated_ngrams(sequence * 2) > once or once == repeated_ngrams(sequence * 2) > 0


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=50))
def test_the_histogram_holds_every_prompt_once_in_few_bins_without_gaps(lengths):
    bins = WorkloadStats(len(lengths), 0, {}, 0, "tokens", tuple(lengths), 0.0).histogram
    assert 1 <= len(bins) <= HISTOGRAM_BINS
    assert all(low == below for (_, below, _), (low, _, _) in pairwise(bins))
    for low, below, prompts_in in bins:
        assert prompts_in == sum(low <= length < below for length in lengths)
    assert sum(n for *_, n in bins) == len(lengths)


def test_tokens_are_what_the_target_sees_template_and_generation_prompt_included(demo_target):
    encode = tokens(demo_target)
    from transformers import AutoTokenizer

    seen = AutoTokenizer.from_pretrained(demo_target).decode(encode(chat("a", "Hi")))
    assert seen.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert len(encode(Prompt("b", prompt="Hi"))) == 1


def test_a_directory_without_tokenizer_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(SpecbenchError, match=f"no tokenizer loads from {tmp_path}"):
        tokens(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json"])
def test_a_model_whose_configuration_is_no_object_is_a_sentence(tmp_path, name):
    for file in ("config.json", "tokenizer_config.json"):
        (tmp_path / file).write_text("[]" if file == name else "{}")
    with pytest.raises(SpecbenchError, match=rf"{name}: not a \w+'s configuration \(no JSON object\)"):
        tokens(tmp_path)


def test_messages_for_a_model_without_chat_template_are_refused(tmp_path):
    from tokenizers import Tokenizer, models

    Tokenizer(models.BPE({"H": 0, "i": 1}, [])).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    encode = tokens(tmp_path)
    assert encode(Prompt("b", prompt="Hi")) == [0, 1]
    with pytest.raises(SpecbenchError, match='no chat template, and prompt a has "messages"'):
        encode(chat("a", "Hi"))


def test_what_is_to_follow_makes_a_conversation_and_is_counted_with_its_first_request():
    talk = replace(chat("a", "Hi there"), follow_ups=("And then?",))
    stats = workload_stats(workload(talk, chat("b", "Hi there")), words, "words")
    assert (stats.multi_turn, stats.duplicates, stats.lengths) == (1, 0, (2, 2))
