"""A draft model with other tokens than the target's: its drafts come by way of text, and change no output."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from driving import assert_cache_is_a_fresh_prefill, run, tokens
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from specbench.decoder.drafters.universal import UniversalDraftModel
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.policies.base import Step
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams

PRINTABLE = 94
"""Of the byte tokenizer's tokens the first are the printable characters of ASCII."""

TEXTS = ("Hello, world", "a", "1+1=2;1+2=3;", "café Übung", "the the the", "{[(<", "no-yes-no", "x" * 20)
GREEDY = SamplingParams(temperature=0.0, max_tokens=24, ignore_eos=True)
SAMPLED = SamplingParams(temperature=0.8, max_tokens=24, ignore_eos=True)


@pytest.fixture(scope="module")
def writer(save_llama: Callable[..., Path]) -> Path:
    """A target that says printable characters only, so that each of its tokens is a text."""
    directory = save_llama(seed=5)
    model = LlamaForCausalLM.from_pretrained(directory)
    model.lm_head.weight.data[PRINTABLE:] = 0
    model.save_pretrained(directory)
    return directory


@pytest.fixture(scope="module")
def renumbered(writer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with its tokens numbered backwards."""
    directory = tmp_path_factory.mktemp("renumbered") / "model"
    shutil.copytree(writer, directory)
    model = LlamaForCausalLM.from_pretrained(writer)
    for part in (model.model.embed_tokens, model.lm_head):
        part.weight.data = torch.cat([part.weight.data[:256].flip(0), part.weight.data[256:]])
    model.save_pretrained(directory)
    rewrite(directory, lambda bpe: bpe["vocab"].update({c: 255 - i for c, i in bpe["vocab"].items() if i < 256}))
    return directory


@pytest.fixture(scope="module")
def merging(save_llama: Callable[..., Path]) -> Path:
    """Another model, with tokens of two and four characters besides."""
    directory = save_llama(seed=6, vocab_size=300)
    merges = [*itertools.product("etaoin", repeat=2), ("te", "na")]

    def merge(bpe: dict[str, Any]) -> None:
        for a, b in merges:
            bpe["merges"].append([a, b])
            bpe["vocab"][a + b] = 258 + len(bpe["merges"]) - 1

    rewrite(directory, merge)
    return directory


def rewrite(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = directory / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    change(tokenizer["model"])
    path.write_text(json.dumps(tokenizer))


def make(target: Path, drafter: Path | None = None, gamma: int = 0, **settings: Any) -> Engine:
    method = "none" if drafter is None else "draft_model"
    return load_engine(target, method=method, gamma=gamma, drafter=drafter, **{"max_model_len": 80, **settings})


def decode(engine: Engine, params: SamplingParams, target: Path) -> dict[str, list[int]]:
    tokenizer = Tokenizer.from_file(str(target / "tokenizer.json"))
    outputs: dict[str, list[Any]] = {text: [] for text in TEXTS}
    for text in TEXTS:
        engine.add(Request(text, tokenizer.encode(text).ids, params))
    while engine.has_work:
        for output in engine.step():
            outputs[output.request_id].append(output)
        assert_cache_is_a_fresh_prefill(engine)
    return tokens(outputs)


@pytest.mark.parametrize("gamma", [1, 4])
@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_the_same_model_under_other_numbers_is_accepted_nearly_always(
    writer: Path, renumbered: Path, batch_size: int, gamma: int
) -> None:
    speculating = make(writer, renumbered, gamma, max_batch_size=batch_size)
    assert isinstance(speculating.drafter, UniversalDraftModel)
    assert decode(speculating, GREEDY, writer) == decode(make(writer), GREEDY, writer)
    counters = speculating.counters
    assert counters.accepted > 0.95 * counters.drafted
    assert counters.drafted > 0.9 * gamma * counters.steps - len(TEXTS) * gamma


@pytest.mark.parametrize("drafts", ["renumbered", "merging"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_no_token_changes_whatever_is_drafted(
    writer: Path, batch_size: int, drafts: str, request: pytest.FixtureRequest
) -> None:
    drafter = request.getfixturevalue(drafts)
    for params in (GREEDY, SAMPLED):
        speculating = make(writer, drafter, 3, max_batch_size=batch_size, verification="coupled")
        plain = make(writer, verification="coupled")
        assert decode(speculating, params, writer) == decode(plain, params, writer)
        assert speculating.counters.drafted > 0


def test_a_target_whose_bytes_are_no_text_is_decoded_all_the_same(target: Path, merging: Path) -> None:
    """Its tokens are halves of characters, most of the time."""
    for params in (GREEDY, SAMPLED):
        speculating = make(target, merging, 3, max_batch_size=3, verification="coupled")
        assert decode(speculating, params, target) == decode(make(target, verification="coupled"), params, target)


def test_a_text_too_long_for_the_drafters_cache_is_decoded_without_it(
    writer: Path, renumbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speculating = make(writer, renumbered, 3, max_batch_size=2)
    assert isinstance(speculating.drafter, UniversalDraftModel)
    follow = UniversalDraftModel._follow
    monkeypatch.setattr(UniversalDraftModel, "_follow", lambda self, sequence: follow(self, sequence) * 12)
    assert decode(speculating, GREEDY, writer) == decode(make(writer), GREEDY, writer)
    assert 0 < speculating.counters.drafts < speculating.counters.steps


def test_rows_near_the_end_of_the_drafters_cache_sit_out_and_harm_nobody(
    save_llama: Callable[..., Path], writer: Path
) -> None:
    """The target's tokens are three characters each, so that the draft model needs three for one."""
    triple = save_llama(seed=5, vocab_size=420)
    model = LlamaForCausalLM.from_pretrained(triple)
    model.lm_head.weight.data[PRINTABLE:] = 0
    model.save_pretrained(triple)

    def threefold(bpe: dict[str, Any]) -> None:
        for char, id in [(c, i) for c, i in bpe["vocab"].items() if i < PRINTABLE]:
            bpe["vocab"] |= {char * 3: id, char: 258 + id}

    rewrite(triple, threefold)
    params = SamplingParams(temperature=0.0, max_tokens=90, ignore_eos=True)
    asked = [Request(str(i), [5 + i] * (3 + 7 * i), params) for i in range(6)]
    speculating = make(triple, writer, 4, max_batch_size=3, max_model_len=100)
    assert tokens(run(speculating, asked)) == tokens(run(make(triple, max_model_len=100), asked))
    assert 0 < speculating.counters.drafts < speculating.counters.steps


class _RestsOnce:
    """Gamma 3, but for one step of one request."""

    largest, stop_below = 3, None

    def __init__(self) -> None:
        self.steps = 0

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        self.steps += 1
        return [0 if session == "a" and self.steps == 5 else 3 for session in sessions]

    def observe(self, step: Step) -> None: ...

    def forget(self, session: Hashable) -> None: ...


def test_a_row_that_rests_for_a_step_goes_on_as_before(writer: Path, renumbered: Path) -> None:
    speculating = make(writer, renumbered, 3, max_batch_size=2, max_model_len=200)
    speculating.policy = _RestsOnce()
    params = SamplingParams(temperature=0.0, max_tokens=100, ignore_eos=True)
    run(speculating, [Request(id, [5, 9, 30], params) for id in "ab"])
    assert speculating.counters.accepted > 0.95 * speculating.counters.drafted


def test_a_vocabulary_of_another_size_and_no_tokenizer_is_refused(
    writer: Path, save_llama: Callable[..., Path]
) -> None:
    other = save_llama(vocab_size=300)
    (other / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match=r"has 300 tokens .* and the target's 258, and without a tokenizer.json"):
        make(writer, other, 2)


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}'])
@pytest.mark.parametrize("method", ["draft_model", "ssd"])
def test_a_broken_tokenizer_is_one_sentence(
    writer: Path, renumbered: Path, tmp_path: Path, method: str, text: str
) -> None:
    shutil.copytree(renumbered, tmp_path / "broken")
    (tmp_path / "broken" / "tokenizer.json").write_text(text)
    with pytest.raises(ValueError, match=r"tokenizer.json is no tokenizer's file"):
        load_engine(writer, method=method, gamma=2, drafter=tmp_path / "broken", max_model_len=80)


def test_a_tokenizer_with_more_tokens_than_its_model_is_refused(
    writer: Path, renumbered: Path, merging: Path, tmp_path: Path
) -> None:
    shutil.copytree(renumbered, tmp_path / "wrong")
    shutil.copy(merging / "tokenizer.json", tmp_path / "wrong")
    with pytest.raises(ValueError, match=r"tokenizer has 29\d tokens and the model 258: they do not belong together"):
        make(writer, tmp_path / "wrong", 2)


@pytest.mark.parametrize("vocab_size", [258, 270, 320])
def test_a_family_whose_models_are_padded_differently_shares_its_tokens(
    target: Path, pruned: Path, save_llama: Callable[..., Path], vocab_size: int
) -> None:
    """The same tokenizer, and embeddings for tokens that do not exist, on either side."""
    wide = save_llama(vocab_size=vocab_size)
    for big, small in ((wide, pruned), (pruned, wide)):
        params = SamplingParams(temperature=0.9, max_tokens=20, ignore_eos=True)
        results = []
        for drafter in (small, None):
            engine = load_engine(
                big,
                method="draft_model" if drafter else "none",
                gamma=3 if drafter else 0,
                drafter=drafter,
                max_model_len=64,
                verification="coupled",
            )
            assert not isinstance(engine.drafter, UniversalDraftModel)
            outputs: dict[str, list[Any]] = {"a": [], "b": []}
            for id in outputs:
                engine.add(Request(id, [ord(c) for c in f"{id}bcabc"], params))
            while engine.has_work:
                for output in engine.step():
                    outputs[output.request_id].append(output)
            results.append(tokens(outputs))
        assert results[0] == results[1]
