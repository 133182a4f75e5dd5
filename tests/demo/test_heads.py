"""The head in the package becomes, in the cache, what engines load; and it is worth something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specbench.acceptance import AcceptanceCounts
from specbench.cache import cache_dir
from specbench.decoder.config import ModelConfig
from specbench.decoder.models.eagle3_config import Eagle3Config
from specbench.demo.heads import INT8, WEIGHTS, eagle3_head, int8_head, weights
from specbench.drafter import resolve_drafter
from specbench.errors import SpecbenchError
from specbench.train.acceptance import measure_acceptance
from specbench.train.head_files import LAYER_PREFIXES, Layout
from specbench.workloads import load_workload

WORKLOADS = Path(__file__).parents[2] / "workloads"


def test_what_ships_is_small() -> None:
    assert WEIGHTS.stat().st_size <= 12_000_000
    assert sum(file.stat().st_size for file in WEIGHTS.parent.glob("*.safetensors")) <= 45_000_000


@pytest.mark.parametrize("layout", LAYER_PREFIXES)
def test_the_head_is_whole_in_both_layouts(demo_target: Path, layout: Layout) -> None:
    directory = eagle3_head(layout)
    config = Eagle3Config.from_directory(directory, ModelConfig.from_directory(demo_target))
    assert config.taps == (2, 15, 27)
    tensors = load_file(directory / "model.safetensors")
    assert f"{LAYER_PREFIXES[layout]}self_attn.q_proj.weight" in tensors
    token_ids = tensors["d2t"] + torch.arange(config.draft_vocab_size)
    assert tensors["t2d"].nonzero().flatten().equal(token_ids)
    target = load_file(demo_target / "model.safetensors")
    rows = target["model.embed_tokens.weight"][token_ids].float() * target["model.norm.weight"].float()
    assert tensors["lm_head.weight"].equal(rows.half())


def test_both_layouts_hold_the_same_numbers(demo_target: Path) -> None:
    ours, theirs = (load_file(eagle3_head(layout) / "model.safetensors") for layout in LAYER_PREFIXES)
    assert all(tensor.equal(theirs[name.replace("midlayer.", "layers.0.")]) for name, tensor in ours.items())


def test_a_second_use_makes_nothing(demo_target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = eagle3_head()
    monkeypatch.setattr("specbench.train.head_files.write_head", None)
    assert eagle3_head() == directory
    assert directory.is_relative_to(cache_dir())


def test_drafter_demo_is_the_head_and_other_methods_have_none(demo_target: Path) -> None:
    assert resolve_drafter("eagle3", "demo") == eagle3_head()
    with pytest.raises(SpecbenchError, match="there is no drafter demo for method ngram"):
        resolve_drafter("ngram", "demo")


def test_the_head_is_accepted_on_prompts_that_it_never_saw(demo_target: Path) -> None:
    prompts = load_workload(WORKLOADS / "chat.jsonl").prompts[:4]
    measured = measure_acceptance(demo_target, "eagle3", eagle3_head(), 3, prompts, max_tokens=48)
    assert isinstance(measured.counts, AcceptanceCounts)
    assert measured.counts.steps > 40
    rate = measured.counts.position_acceptance()
    assert rate is not None
    # Four prompts say little; a broken head would be accepted next to never.
    assert rate[0] > 0.15


@pytest.mark.parametrize("method", INT8)
def test_the_other_heads_are_accepted_too(demo_target: Path, method: str) -> None:
    assert resolve_drafter(method, "demo") == int8_head(method)
    prompts = load_workload(WORKLOADS / "chat.jsonl").prompts[:3]
    measured = measure_acceptance(demo_target, method, int8_head(method), 2, prompts, max_tokens=32)
    assert measured.counts.steps > 20
    rate = measured.counts.position_acceptance()
    assert rate is not None
    # As above: next to never is what a broken one is.
    assert rate[0] > 0.1


@pytest.mark.parametrize("file", [WEIGHTS, *map(weights, INT8)], ids=lambda file: file.stem)
def test_no_evaluation_workload_was_trained_on(file: Path) -> None:
    report = json.loads(file.with_suffix(".json").read_text())
    judged = {prompts["name"] for prompts in report["evaluated_on"]}
    assert not judged & {prompts["name"] for prompts in report["trained_on"]}
