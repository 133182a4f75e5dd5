"""EAGLE-1, Medusa and MTP heads: training raises acceptance, what it counts as accepted the engine accepts, and what is
shipped is the trained head."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from counting import accepted_steps
from safetensors.torch import load_file, save_file

from specbench.decoder.load import load_engine
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.demo.draft_model import dequantized
from specbench.demo.train.pack import quantized_head
from specbench.train.batches import TrainingBatch
from specbench.train.chat import ChatFormat
from specbench.train.data import Shards, record_prompts
from specbench.train.fused_module import EagleModule
from specbench.train.heads import TrainedHead, head_loss, recorded_taps, train_head
from specbench.train.loop import TrainSettings, held_out
from specbench.train.published import published, write_published
from specbench.workloads import load_workload

METHODS = ("eagle", "medusa", "mtp")
GAMMA = 3
WHOLE = 258
"""The tiny target's vocabulary: EAGLE-1 and MTP speak all of it when they decode."""


@pytest.fixture(scope="module")
def model(tiny_target: Path) -> Llama:
    return Llama.from_directory(tiny_target, torch.float32, torch.device("cpu"))


@pytest.fixture(scope="module")
def shards(tiny_target: Path, model: Llama, prompt_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    return record_prompts(
        model, ChatFormat.from_directory(tiny_target), load_workload(prompt_file).prompts,
        tmp_path_factory.mktemp("data"), taps=recorded_taps(8), eos=(257,), max_tokens=40,
    )  # fmt: skip


@pytest.fixture(scope="module")
def trained(tiny_target: Path, shards: Shards, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainedHead]:
    settings = TrainSettings(epochs=5, batch_tokens=512, warmup_steps=5, learning_rate=4e-3)
    return {
        method: train_head(
            method, tiny_target, shards, range(8, len(shards)), tmp_path_factory.mktemp(method), settings, WHOLE
        )
        for method in METHODS
    }


@pytest.mark.parametrize("method", METHODS)
def test_training_raises_acceptance_and_lowers_the_loss_on_records_that_it_did_not_see(
    tiny_target: Path, shards: Shards, trained: dict[str, TrainedHead], method: str, tmp_path: Path
) -> None:
    untrained = train_head(method, tiny_target, shards, range(8, len(shards)), tmp_path, TrainSettings(epochs=0), WHOLE)
    unseen = TrainingBatch.of([shards[i] for i in range(8)], torch.device("cpu"))

    def judged(head: TrainedHead) -> tuple[float, float]:
        with torch.no_grad():
            loss = float(head_loss(head.module)(unseen, 1.0).loss)
        return held_out(head_loss(head.module), shards, range(8), 512)[0], loss

    (before, loss_before), (after, loss_after) = judged(untrained), judged(trained[method])
    assert after > before + 0.02
    assert loss_after < loss_before


@pytest.mark.parametrize("method", METHODS)
def test_the_engine_accepts_what_training_counted_as_accepted(
    tiny_target: Path, shards: Shards, trained: dict[str, TrainedHead], method: str, tmp_path: Path
) -> None:
    module, token_ids = trained[method].module, trained[method].token_ids
    # As the files hold it, in half precision.
    module.load_state_dict({name: tensor.half().float() for name, tensor in module.state_dict().items()})
    if method == "medusa":
        module.head = module.head.half().float()
    write_published(method, tmp_path, published(method, module.state_dict(), token_ids), tiny_target, "tiny")
    engine = load_engine(tiny_target, method=method, gamma=GAMMA, drafter=tmp_path, max_model_len=256)
    steps = accepted_steps(engine, module, shards)
    assert len(steps) > 50
    assert all(accepted == counted for accepted, counted in steps)
    assert any(accepted for accepted, _ in steps)


def test_eagle_features_are_noisy_where_it_learns_the_same_noise_for_the_same_batch_and_exact_where_it_is_judged(
    shards: Shards, trained: dict[str, TrainedHead]
) -> None:
    module, batch = trained["eagle"].module, TrainingBatch.of([shards[0], shards[1]], torch.device("cpu"))
    assert isinstance(module, EagleModule)
    noisy, again = module.features(batch), module.features(batch)
    with torch.no_grad():
        exact = module.features(batch)
    torch.testing.assert_close(exact, module.final(batch.hidden[:, :-1, -1]))
    torch.testing.assert_close(noisy, again)
    assert 0.09 < (noisy - exact).abs().max() <= 0.1001


@pytest.mark.parametrize("method", METHODS)
def test_a_head_as_it_ships_is_the_trained_one_but_for_rounding_and_small(
    tiny_target: Path, trained: dict[str, TrainedHead], method: str, tmp_path: Path
) -> None:
    head = trained[method]
    (ordinary := tmp_path / "ordinary").mkdir()
    (shipped := tmp_path / "shipped").mkdir()
    tensors = published(method, head.module.state_dict(), head.token_ids)
    write_published(method, ordinary, tensors, tiny_target, "tiny")
    whole = load_file(ordinary / "model.safetensors")
    save_file(quantized_head(whole), tmp_path / "packed.safetensors")
    packed = load_file(tmp_path / "packed.safetensors")
    assert not any(name.startswith("lm_heads") for name in packed)
    write_published(method, shipped, dequantized(packed), tiny_target, "tiny")
    restored = load_file(shipped / "model.safetensors")
    assert restored.keys() == whole.keys()
    for name, tensor in whole.items():
        if tensor.is_floating_point():
            torch.testing.assert_close(restored[name].float(), tensor.float(), atol=0.02, rtol=0.02)
        else:
            assert restored[name].equal(tensor)
    config = json.loads((shipped / "config.json").read_text())
    assert config == json.loads((ordinary / "config.json").read_text())


def test_medusa_heads_carry_the_tokens_that_they_were_trained_to_say(
    tiny_target: Path, shards: Shards, tmp_path: Path
) -> None:
    head = train_head("medusa", tiny_target, shards, range(8), tmp_path, TrainSettings(epochs=0), 100)
    write_published("medusa", tmp_path, published("medusa", head.module.state_dict(), head.token_ids), tiny_target, "t")
    tensors, config = load_file(tmp_path / "model.safetensors"), json.loads((tmp_path / "config.json").read_text())
    assert tensors["token_map"].equal(head.token_ids)
    rows = load_file(tiny_target / "model.safetensors")["lm_head.weight"]
    assert tensors["lm_heads.0.weight"].equal(rows[head.token_ids].half())
    assert (config["num_heads"], config["truncated_vocab_size"], config["vocab_size"]) == (4, 100, WHOLE)
    # Untrained, every head says what the target's own head says: the token after, not the one two places on.
    engine = load_engine(tiny_target, method="medusa", gamma=2, drafter=tmp_path, max_model_len=64)
    engine.add(Request("r", [5, 6, 7], SamplingParams(temperature=0.0, max_tokens=2)))
    engine.step()
    with torch.inference_mode():
        said, _ = engine.drafter.candidates(engine._live_batch(), 4, 1)  # type: ignore[attr-defined]
    assert len(set(said.flatten().tolist())) == 1
