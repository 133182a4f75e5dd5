"""Weights are found by name in one file or in shards; what is missing or broken is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from specbench.decoder.checkpoint import Checkpoint


@pytest.fixture
def sharded(target: Path, tmp_path: Path) -> Path:
    LlamaForCausalLM.from_pretrained(target).save_pretrained(tmp_path, max_shard_size="60KB")
    return tmp_path


def test_shards_hold_the_same_tensors_as_one_file(target: Path, sharded: Path) -> None:
    assert len(list(sharded.glob("*.safetensors"))) > 1
    for name in LlamaForCausalLM.from_pretrained(target).state_dict():
        assert torch.equal(Checkpoint(sharded).tensor(name), Checkpoint(target).tensor(name))


def test_the_dtype_is_the_stored_one(target: Path, tmp_path: Path) -> None:
    assert Checkpoint(target).dtype == torch.float32
    LlamaForCausalLM.from_pretrained(target, dtype=torch.bfloat16).save_pretrained(tmp_path)
    assert Checkpoint(tmp_path).dtype == torch.bfloat16


def test_a_missing_shard_is_named(sharded: Path) -> None:
    lost = sorted(sharded.glob("*.safetensors"))[1]
    lost.unlink()
    with pytest.raises(ValueError, match=f"{lost.name} is in the index"):
        Checkpoint(sharded)


def test_a_truncated_file_is_named(target: Path, tmp_path: Path) -> None:
    whole = (target / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        Checkpoint(tmp_path)


def test_no_weights_and_a_missing_tensor_are_named(target: Path, tmp_path: Path) -> None:
    shutil.copy(target / "config.json", tmp_path)
    with pytest.raises(ValueError, match=r"has no model\.safetensors"):
        Checkpoint(tmp_path)
    with pytest.raises(ValueError, match=r"lacks the tensor model\.layers\.9"):
        Checkpoint(target).tensor("model.layers.9.mlp.up_proj.weight")
