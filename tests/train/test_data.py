"""Recorded answers are the target's own, with its own hidden states, and survive a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from specbench.decoder.load import load_engine
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.train import data
from specbench.train.chat import ChatFormat
from specbench.train.data import Shards, record_prompts
from specbench.train.heads import recorded_taps
from specbench.train.record import Record
from specbench.workloads import load_workload
from specbench.workloads.prompt import Prompt

TAPS = (2, 4, 5, 8)


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Llama:
    return Llama.from_directory(tiny_target, torch.float32, torch.device("cpu"))


@pytest.fixture(scope="module")
def chat(tiny_target: Path) -> ChatFormat:
    return ChatFormat.from_directory(tiny_target)


@pytest.fixture(scope="module")
def prompts(prompt_file: Path) -> list[Prompt]:
    return list(load_workload(prompt_file).prompts)


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "SHARD_RECORDS", 8)


def record(model: Llama, chat: ChatFormat, prompts: list[Prompt], directory: Path, **settings: Any) -> Shards:
    return record_prompts(
        model, chat, prompts, directory, taps=TAPS, eos=(257,), **{"max_tokens": 12, "rows": 4, **settings}
    )


def by_id(shards: Shards) -> dict[str, Record]:
    return {shards.ids[i]: shards[i] for i in range(len(shards))}


def test_the_taps_are_those_of_the_head_and_the_end_of_the_last_layer() -> None:
    assert recorded_taps(30) == (2, 15, 27, 30)


def test_answers_are_what_the_engine_decodes(
    tiny_target: Path, model: Llama, chat: ChatFormat, prompts: list[Prompt], tmp_path: Path
) -> None:
    records = by_id(record(model, chat, prompts[:6], tmp_path))
    engine = load_engine(tiny_target, max_model_len=128)
    for seed, prompt in enumerate(prompts[:6]):
        ids, temperature = chat.encode(prompt), 0.0 if seed % 2 == 0 else 0.8
        engine.add(Request(prompt.id, ids, SamplingParams(temperature=temperature, seed=seed, max_tokens=12)))
        tokens = list(ids)
        while engine.has_work:
            tokens += [token for output in engine.step() for token in output.token_ids]
        if prompt.id in records:
            assert records[prompt.id].tokens.tolist() == tokens
            assert records[prompt.id].prompt_length == len(ids)
    assert records


def test_hidden_states_are_those_of_transformers(
    tiny_target: Path, model: Llama, chat: ChatFormat, prompts: list[Prompt], tmp_path: Path
) -> None:
    reference = LlamaForCausalLM.from_pretrained(tiny_target).eval()
    for found in by_id(record(model, chat, prompts[:6], tmp_path)).values():
        with torch.no_grad():
            states = reference(found.tokens[None, :-1], output_hidden_states=True).hidden_states
        assert found.hidden.shape == (len(found.tokens) - 1, 4, 32)
        for place, tap in enumerate(TAPS[:3]):
            torch.testing.assert_close(found.hidden[:, place].float(), states[tap][0], atol=0.02, rtol=0.02)
        last = reference.model.norm(found.hidden[:, 3].float())
        torch.testing.assert_close(last, states[8][0], atol=0.03, rtol=0.03)


def test_a_killed_recording_goes_on_and_ends_as_one_that_was_not(
    model: Llama, chat: ChatFormat, prompts: list[Prompt], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    small_shards: None,
) -> None:  # fmt: skip
    whole = by_id(record(model, chat, prompts, tmp_path / "whole"))
    append = Shards.append

    def die_at_the_third(self: Shards, records: list[Record]) -> None:
        if len(list(self.directory.glob("shard-*"))) == 2:
            raise KeyboardInterrupt
        append(self, records)

    monkeypatch.setattr(Shards, "append", die_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        record(model, chat, prompts, tmp_path / "killed")
    monkeypatch.setattr(Shards, "append", append)
    resumed = by_id(record(model, chat, prompts, tmp_path / "killed"))
    assert resumed.keys() == whole.keys()
    for id, found in resumed.items():
        assert found.tokens.tolist() == whole[id].tokens.tolist()


def test_nothing_is_decoded_twice(
    model: Llama, chat: ChatFormat, prompts: list[Prompt], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = record(model, chat, prompts[:8], tmp_path)
    monkeypatch.setattr(Llama, "forward", None)
    assert record(model, chat, prompts[:8], tmp_path).ids == first.ids


def test_prompts_that_are_too_long_are_left_out(
    model: Llama, chat: ChatFormat, prompts: list[Prompt], tmp_path: Path
) -> None:
    assert len(record(model, chat, prompts[:4], tmp_path, max_prompt_tokens=5)) == 0
