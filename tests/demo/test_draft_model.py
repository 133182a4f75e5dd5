"""The draft model in the package becomes, in the cache, what engines load; and it is worth something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from specbench.demo.draft_model import WEIGHTS, demo_draft_model, dequantized, quantized
from specbench.drafter import resolve_drafter
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig
from specbench.sweep.prepare import prepare
from specbench.train.acceptance import measure_acceptance
from specbench.workloads import load_workload

WORKLOADS = Path(__file__).parents[2] / "workloads"


def test_what_ships_is_small() -> None:
    assert WEIGHTS.stat().st_size <= 20_000_000


@given(st.integers(0, 100))
def test_int8_keeps_every_weight_within_half_a_step_of_its_row(seed: int) -> None:
    matrix = torch.randn(7, 33, generator=torch.Generator().manual_seed(seed))
    gain = torch.ones(33, dtype=torch.bfloat16)
    restored = dequantized(quantized({"w": matrix, "norm": gain}))
    step = matrix.abs().amax(1, keepdim=True) / 127
    rounding = matrix.abs() * 2**-8  # of bfloat16
    assert ((restored["w"].float() - matrix).abs() <= step / 2 + rounding + 1e-6).all()
    assert restored["norm"].equal(gain)


def test_the_whole_one_is_an_ordinary_model_with_the_targets_embeddings(demo_target: Path) -> None:
    directory = demo_draft_model()
    model = AutoModelForCausalLM.from_pretrained(directory)
    assert model.config.num_hidden_layers == 5
    target = load_file(demo_target / "model.safetensors")
    assert model.get_input_embeddings().weight.equal(target["model.embed_tokens.weight"].to(model.dtype))


def test_the_reduced_one_has_the_same_layers_and_the_rows_of_its_tokens(demo_target: Path) -> None:
    whole, reduced = (load_file(demo_draft_model(head) / "model.safetensors") for head in ("full", "reduced"))
    token_ids = reduced["d2t"] + torch.arange(len(reduced["d2t"]))
    assert len(token_ids) == 8192
    assert reduced["lm_head.weight"].equal(whole["model.embed_tokens.weight"][token_ids])
    assert all(reduced[name].equal(tensor) for name, tensor in whole.items())


def test_it_is_accepted_on_prompts_that_it_never_saw(demo_target: Path) -> None:
    prompts = load_workload(WORKLOADS / "chat.jsonl").prompts[:4]
    measured = measure_acceptance(demo_target, "draft_model", demo_draft_model("reduced"), 3, prompts, max_tokens=48)
    assert measured.counts.steps > 40
    rate = measured.counts.position_acceptance()
    assert rate is not None
    # Four prompts say little; a broken one would be accepted next to never.
    assert rate[0] > 0.15


def test_its_names() -> None:
    assert resolve_drafter("draft_model", "demo") == demo_draft_model("full")
    assert resolve_drafter("draft_model", "demo-reduced") == demo_draft_model("reduced")
    with pytest.raises(SpecbenchError, match="there is no drafter demo-reduced for method eagle3"):
        resolve_drafter("eagle3", "demo-reduced")


def test_no_engine_but_the_reference_decoder_is_given_the_reduced_one(tmp_path: Path) -> None:
    config = SweepConfig(
        workload=(WORKLOADS / "chat.jsonl",),
        backend="vllm",
        method=("draft_model",),
        drafter={"draft_model": "demo-reduced"},
        python=tmp_path / "python",
    )
    (tmp_path / "python").touch()
    with pytest.raises(SpecbenchError, match="which only the reference decoder loads"):
        prepare(config, tmp_path / "run", resume=False, note=lambda text: None)


def test_no_evaluation_workload_was_trained_on() -> None:
    report = json.loads(WEIGHTS.with_suffix(".json").read_text())
    judged = {prompts["name"] for prompts in report["evaluated_on"]}
    assert not judged & {prompts["name"] for prompts in report["trained_on"]}
