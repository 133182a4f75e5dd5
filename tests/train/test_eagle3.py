"""What training counts as accepted is what the engine accepts, and training raises it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from counting import accepted_steps

from specbench.decoder.config import ModelConfig
from specbench.decoder.load import load_engine
from specbench.decoder.models.llama import Llama
from specbench.errors import SpecbenchError
from specbench.train import loop
from specbench.train.chat import ChatFormat
from specbench.train.data import Shards, record_prompts
from specbench.train.head_files import LAYER_PREFIXES, Layout, head_tensors, write_head
from specbench.train.heads import TrainedHead, head_loss, recorded_taps, train_head
from specbench.train.loop import TrainSettings, held_out
from specbench.train.vocabulary import coverage, draft_vocabulary
from specbench.workloads import load_workload

GAMMA = 3
SETTINGS = TrainSettings(epochs=6, batch_tokens=512, warmup_steps=5)


@pytest.fixture(scope="module")
def shards(tiny_target: Path, prompt_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    model = Llama.from_directory(tiny_target, torch.float32, torch.device("cpu"))
    prompts = load_workload(prompt_file).prompts
    return record_prompts(
        model, ChatFormat.from_directory(tiny_target), prompts, tmp_path_factory.mktemp("data"),
        taps=recorded_taps(8), eos=(257,), max_tokens=40,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tiny_target: Path, shards: Shards, tmp_path_factory: pytest.TempPathFactory) -> TrainedHead:
    indexes = range(8, len(shards))
    return train_head("eagle3", tiny_target, shards, indexes, tmp_path_factory.mktemp("run"), SETTINGS, vocabulary=160)


def test_training_raises_the_acceptance_of_records_that_it_did_not_see(
    tiny_target: Path, shards: Shards, trained: TrainedHead, tmp_path: Path
) -> None:
    untrained = train_head("eagle3", tiny_target, shards, range(8, len(shards)), tmp_path, TrainSettings(epochs=0), 160)

    def acceptance(head: TrainedHead) -> float:
        return held_out(head_loss(head.module), shards, range(8), 512)[0]

    assert acceptance(trained) > acceptance(untrained) + 0.1


@pytest.mark.parametrize("layout", LAYER_PREFIXES)
def test_the_engine_accepts_what_training_counted_as_accepted(
    tiny_target: Path, shards: Shards, trained: TrainedHead, layout: Layout, tmp_path: Path
) -> None:
    module = trained.module
    # As the files hold it, in half precision.
    module.load_state_dict({name: tensor.half().float() for name, tensor in module.state_dict().items()})
    module.head = module.head.half().float()
    write_head(tmp_path, head_tensors(module.state_dict()), trained.token_ids, tiny_target, layout, "tiny")
    engine = load_engine(tiny_target, method="eagle3", gamma=GAMMA, drafter=tmp_path, max_model_len=256)
    steps = accepted_steps(engine, module, shards)
    assert len(steps) > 50
    assert all(accepted == counted for accepted, counted in steps)


@pytest.mark.parametrize("layout", LAYER_PREFIXES)
def test_a_head_of_either_layout_can_be_trained_further(
    tiny_target: Path, shards: Shards, trained: TrainedHead, layout: Layout, tmp_path: Path
) -> None:
    (head := tmp_path / "head").mkdir()
    write_head(head, head_tensors(trained.module.state_dict()), trained.token_ids, tiny_target, layout, "tiny")
    begun = train_head("eagle3", tiny_target, shards, range(4), tmp_path, TrainSettings(epochs=0), 160, initial=head)
    for name, tensor in trained.module.state_dict().items():
        torch.testing.assert_close(begun.module.state_dict()[name], tensor.half().float())


def test_a_head_that_is_built_otherwise_is_not_trained_further(
    tiny_target: Path, shards: Shards, trained: TrainedHead, tmp_path: Path
) -> None:
    (head := tmp_path / "head").mkdir()
    write_head(head, head_tensors(trained.module.state_dict()), trained.token_ids, tiny_target, "safeailab", "tiny")
    config = json.loads((head / "config.json").read_text())
    (head / "config.json").write_text(json.dumps({**config, "norm_output": False}))
    with pytest.raises(SpecbenchError, match="can be trained on"):
        train_head("eagle3", tiny_target, shards, range(4), tmp_path, TrainSettings(epochs=0), 160, initial=head)


def test_a_killed_training_goes_on_and_learns_the_same(
    tiny_target: Path, shards: Shards, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = TrainSettings(epochs=2, batch_tokens=512)
    arguments = (tiny_target, shards, range(len(shards)))
    (tmp_path / "whole").mkdir()
    (tmp_path / "killed").mkdir()
    whole = train_head("eagle3", *arguments, tmp_path / "whole", settings, 160)
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    save, saved = loop._Checkpoint.save, []

    def die_after_the_third(self: loop._Checkpoint, *state: object) -> None:
        save(self, *state)  # type: ignore[arg-type]
        saved.append(state)
        if len(saved) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(loop._Checkpoint, "save", die_after_the_third)
    with pytest.raises(KeyboardInterrupt):
        train_head("eagle3", *arguments, tmp_path / "killed", settings, 160)
    resumed = train_head("eagle3", *arguments, tmp_path / "killed", settings, 160)
    for name, tensor in whole.module.state_dict().items():
        torch.testing.assert_close(resumed.module.state_dict()[name], tensor)


def test_a_training_begun_on_a_gpu_goes_on_without_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def state() -> tuple[torch.nn.Linear, torch.optim.AdamW]:
        module = torch.nn.Linear(2, 3)
        return module, torch.optim.AdamW(module.parameters())

    module, optimizer = state()
    module(torch.ones(2)).sum().backward()
    optimizer.step()
    checkpoint = loop._Checkpoint(tmp_path / "checkpoint.pt", {})
    with monkeypatch.context() as saved_there:
        saved_there.setattr(torch.serialization, "location_tag", lambda storage: "cuda:0")
        checkpoint.save(module, optimizer, 7)
    resumed, its_optimizer = state()
    assert checkpoint.load(resumed, its_optimizer) == 7
    torch.testing.assert_close(resumed.weight, module.weight)
    moments = its_optimizer.state[resumed.weight]
    assert moments["exp_avg"].device == resumed.weight.device
    torch.testing.assert_close(moments["exp_avg"], optimizer.state[module.weight]["exp_avg"])


def test_a_checkpoint_of_another_training_is_refused_in_words(
    tiny_target: Path, shards: Shards, tmp_path: Path
) -> None:
    train_head("eagle3", tiny_target, shards, range(4), tmp_path, TrainSettings(epochs=1), 160)
    with pytest.raises(SpecbenchError, match="another training"):
        train_head("eagle3", tiny_target, shards, range(4), tmp_path, TrainSettings(epochs=2), 160)


def test_the_head_begins_as_the_targets_reading_of_its_last_tap(
    tiny_target: Path, shards: Shards, tmp_path: Path
) -> None:
    head = train_head("eagle3", tiny_target, shards, range(4), tmp_path, TrainSettings(epochs=0), 160)
    assert head.module.head.shape == (160, ModelConfig.from_directory(tiny_target).hidden_size)
    torch.testing.assert_close(head.module.fc.weight[:, -32:], torch.eye(32), atol=0.12, rtol=0)


def test_the_draft_vocabulary_is_the_most_frequent_tokens_then_the_lowest_ids(shards: Shards) -> None:
    answers = torch.cat([shards[i].tokens[shards[i].prompt_length :] for i in range(len(shards))])
    counts = torch.bincount(answers, minlength=258)
    said = int((counts > 0).sum())
    few = draft_vocabulary(shards, range(len(shards)), 258, 5)
    assert counts[few].min() >= counts[[i for i in range(258) if i not in few.tolist()]].max()
    more = draft_vocabulary(shards, range(len(shards)), 258, said + 2)
    unsaid = (counts == 0).nonzero().flatten()
    assert set(more.tolist()) == {*(counts > 0).nonzero().flatten().tolist(), *unsaid[:2].tolist()}
    assert coverage(shards, range(len(shards)), more) == 1.0
