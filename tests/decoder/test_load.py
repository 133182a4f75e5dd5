"""Settings become an engine, or one sentence that says what does not fit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM

from specbench.decoder import kernels, load
from specbench.decoder.device import resolve_device, use_gpu
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.load import eos_token_ids, load_engine, resolve_dtype
from specbench.decoder.verifier import Verifier

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def test_settings_reach_the_engine(target: Path, pruned: Path) -> None:
    engine = load_engine(
        target,
        method="draft_model",
        gamma=2,
        drafter=pruned,
        max_batch_size=3,
        max_model_len=99,
        verification="coupled",
        threads=1,
    )
    assert (engine.gamma, engine.max_batch_size, engine.max_model_len) == (2, 3, 99)
    assert (engine.verification, engine.drafter.name, torch.get_num_threads()) == ("coupled", "draft_model", 1)
    assert engine.cache.slots >= 99 + 2 + 1
    # Two of the four layers, and the same embeddings.
    assert 0 < engine.drafter.weights_bytes < engine.target.weights_bytes
    assert engine.drafter.kv_bytes_per_token == engine.cache.bytes_per_token // 2


@pytest.mark.parametrize("drafter", ["none", "pruned"])
def test_kernels_are_used_where_they_are_asked_for_and_can_run(
    target: Path, pruned: Path, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    pytest.importorskip("triton")
    drafting = {"method": "draft_model", "gamma": 2, "drafter": pruned} if drafter == "pruned" else {}

    def on_kernels(**asked: Any) -> set[bool]:
        engine = load_engine(target, **drafting, **asked)
        models = [engine.target, *([engine.drafter.model] if drafting else [])]  # type: ignore[attr-defined]
        return {*(model.on_kernels for model in models), type(engine._verifier) is not Verifier}

    assert on_kernels(kernels="auto") == {False}  # on a CPU
    monkeypatch.setattr(kernels, "usable", lambda device, dtype: True)
    assert on_kernels() == {False}
    assert on_kernels(kernels="auto") == {True}


def test_a_gpu_has_its_number_which_set_device_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [resolve_device(name) for name in ("cpu", "cuda", "cuda:1")] == [
        CPU, torch.device("cuda", 0), torch.device("cuda", 1),
    ]  # fmt: skip
    with pytest.raises(ValueError, match="specified index"):
        torch.cuda.set_device(GPU)


def test_a_gpu_is_used_by_this_thread_and_attends_without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(torch.cuda, "set_device", told.append)
    before = torch.backends.cuda.cudnn_sdp_enabled()
    try:
        torch.backends.cuda.enable_cudnn_sdp(True)
        use_gpu(torch.device("cuda", 1))
        assert not torch.backends.cuda.cudnn_sdp_enabled()
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)
    assert told == [torch.device("cuda", 1)]


def test_the_model_length_is_the_models_own_where_none_is_asked_for(target: Path) -> None:
    assert load_engine(target).max_model_len == 256


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": 3}, "method none goes with gamma 0"),
        ({"method": "ngram"}, "others with gamma >= 1; got ngram with gamma 0"),
        (
            {"method": "telepathy", "gamma": 1},
            "unknown method 'telepathy'. Choose from: none, ngram, suffix, draft_model",
        ),
        ({"method": "draft_model", "gamma": 1}, "needs the directory of a draft model"),
        ({"dtype": "int3"}, "unknown dtype 'int3'. Choose from: auto, float32"),
        ({"device": "gpu"}, "unknown device 'gpu'. Choose from: cpu, cuda"),
        ({"device": "meta"}, "unknown device 'meta'"),
        ({"device": "cuda:99"}, "sees no device cuda:99 here"),
        ({"kernels": "on"}, "unknown use of kernels 'on'. Choose from: off, auto"),
        ({"max_model_len": 257}, r"max_model_len must be 2\.\.256"),
        ({"max_batch_size": 0}, "max_batch_size must be at least 1"),
    ],
)
def test_what_does_not_fit_is_one_sentence(target: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        load_engine(target, **settings)


def test_without_a_tokenizer_a_draft_model_of_the_same_size_is_taken_at_its_word(
    target: Path, pruned: Path, tmp_path: Path
) -> None:
    shutil.copytree(pruned, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer.json").unlink()
    assert isinstance(load_engine(target, method="draft_model", gamma=1, drafter=tmp_path).drafter, DraftModel)


@pytest.mark.parametrize(
    ("stored", "device", "native", "expected"),
    [
        (torch.bfloat16, CPU, True, torch.bfloat16),
        (torch.bfloat16, CPU, False, torch.float32),
        (torch.float16, CPU, True, torch.float32),
        (torch.float32, CPU, True, torch.float32),
        (torch.bfloat16, GPU, False, torch.bfloat16),
        (torch.float16, GPU, False, torch.float16),
    ],
)
def test_auto_is_the_stored_dtype_where_the_device_computes_in_it(
    monkeypatch: pytest.MonkeyPatch, stored: torch.dtype, device: torch.device, native: bool, expected: torch.dtype
) -> None:
    monkeypatch.setattr(load, "_cpu_computes_bfloat16", lambda: native)
    assert resolve_dtype("auto", stored, device) == expected
    assert resolve_dtype("float16", stored, device) == torch.float16


def test_a_bfloat16_engine_decodes(target: Path, tmp_path: Path) -> None:
    LlamaForCausalLM.from_pretrained(target, dtype=torch.bfloat16).save_pretrained(tmp_path)
    engine = load_engine(tmp_path, dtype="bfloat16")
    assert engine.target.dtype == engine.cache.entries.dtype == torch.bfloat16
    assert engine.target.weights_bytes == load_engine(tmp_path, dtype="float32").target.weights_bytes // 2


def test_the_generation_config_says_what_ends_a_text_before_the_config_does(tmp_path: Path) -> None:
    assert eos_token_ids(tmp_path) == ()
    (tmp_path / "config.json").write_text('{"eos_token_id": 2}')
    assert eos_token_ids(tmp_path) == (2,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [5, 7]}')
    assert eos_token_ids(tmp_path) == (5, 7)
    (tmp_path / "generation_config.json").write_text("{}")
    assert eos_token_ids(tmp_path) == (2,)
