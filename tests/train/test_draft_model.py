"""A distilled draft model agrees with its target more than the layers it began with."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specbench.decoder.load import load_engine
from specbench.decoder.models.llama import Llama
from specbench.demo.pruned_draft import prune_layers
from specbench.train.chat import ChatFormat
from specbench.train.data import Shards, record_prompts
from specbench.train.draft_model import DIRECTORY, distillation_loss, train_draft_model
from specbench.train.heads import recorded_taps
from specbench.train.loop import TrainSettings, held_out
from specbench.workloads import load_workload

LAYERS = (0, 1, 7)


@pytest.fixture(scope="module")
def shards(tiny_target: Path, prompt_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    model = Llama.from_directory(tiny_target, torch.float32, torch.device("cpu"))
    return record_prompts(
        model, ChatFormat.from_directory(tiny_target), load_workload(prompt_file).prompts,
        tmp_path_factory.mktemp("data"), taps=recorded_taps(8), eos=(257,), max_tokens=40,
    )  # fmt: skip


def test_distilling_raises_agreement_on_records_that_it_did_not_see(
    tiny_target: Path, shards: Shards, tmp_path: Path
) -> None:
    settings = TrainSettings(epochs=6, batch_tokens=512, learning_rate=1e-3, warmup_steps=5)
    before = train_draft_model(tiny_target, shards, [8], tmp_path / "before", TrainSettings(epochs=0), LAYERS, 160)
    after = train_draft_model(tiny_target, shards, range(8, len(shards)), tmp_path / "after", settings, LAYERS, 160)
    agreement = [
        held_out(distillation_loss(draft.model, tiny_target, draft.token_ids), shards, range(8), 512)[0]
        for draft in (before, after)
    ]
    assert agreement[1] > agreement[0] + 0.05


def test_the_draft_model_is_an_ordinary_directory_with_the_targets_vocabulary_and_tokenizer(
    tiny_target: Path, shards: Shards, tmp_path: Path
) -> None:
    train_draft_model(tiny_target, shards, range(8), tmp_path, TrainSettings(epochs=1), LAYERS, 160)
    engine = load_engine(tiny_target, method="draft_model", gamma=2, drafter=tmp_path / DIRECTORY, max_model_len=64)
    assert engine.drafter.weights_bytes > 0


def test_without_training_it_is_the_pruned_target(tiny_target: Path, shards: Shards, tmp_path: Path) -> None:
    train_draft_model(tiny_target, shards, range(8), tmp_path / "kept", TrainSettings(epochs=0), LAYERS, 258)
    prune_layers(tiny_target, tmp_path / "pruned", LAYERS)
    kept, pruned = (
        Llama.from_directory(directory, torch.bfloat16, torch.device("cpu"))
        for directory in (tmp_path / "kept" / DIRECTORY, tmp_path / "pruned")
    )
    assert torch.equal(kept.embeddings, pruned.embeddings)
    assert torch.equal(kept.layers[2].mlp_norm, pruned.layers[2].mlp_norm)
