"""Does it fit? Known models of known size."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.sweep import preflight
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import make_plan
from specbench.sweep.preflight import (
    check_fit,
    describe_load,
    describe_starts,
    kv_bytes_per_token,
    weight_bytes,
    weight_bytes_per_pass,
)
from specbench.telemetry import inventory
from specbench.telemetry.inventory import Gpu
from specbench.workloads.load import load_workload

# Llama-3.1-8B: 32 layers, 8 heads of 128 for keys and values.
LLAMA = {
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}


def model(folder: Path, gigabytes: float, **config: object) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**LLAMA, **config}))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(int(gigabytes * 1e9))  # sparse: takes no disk
    return folder


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs of 80 GB."""
    monkeypatch.setattr(preflight, "list_gpus", lambda: [Gpu(i, "H100", int(80e9), "570") for i in range(2)])


def config(**changes: object) -> SweepConfig:
    values = {"workload": ["w.jsonl"], "backend": "vllm", "device": "cuda", "dtype": "bfloat16", "batch_size": [8]}
    return SweepConfig.model_validate({**values, "max_model_len": 4096, **changes})


def notes(target: Path, settings: SweepConfig, *drafters: Path) -> list[str]:
    said: list[str] = []
    check_fit(settings, settings.engine_options(), target, drafters, said.append)
    return said


@pytest.mark.parametrize(
    ("shape", "gigabytes"),
    [
        ({"vocab_size": 125_000, "tie_word_embeddings": False}, 16 - 1.024),  # 125,000 rows of 4096 in bfloat16
        ({"vocab_size": 125_000, "tie_word_embeddings": True}, 16),
        ({"vocab_size": 125_000, "num_local_experts": 1}, 16 - 1.024),
        ({"num_local_experts": 8}, None),
        ({"n_routed_experts": 256}, None),
    ],
)
def test_a_pass_reads_all_weights_but_the_rows_that_it_looks_up(
    tmp_path: Path, shape: dict[str, object], gigabytes: float | None
) -> None:
    read = weight_bytes_per_pass(model(tmp_path / "m", 16, **shape), "bfloat16", None)
    assert read == (None if gigabytes is None else pytest.approx(gigabytes * 1e9, rel=1e-6))


def test_where_no_weights_are_nothing_is_said_of_them(tmp_path: Path) -> None:
    assert weight_bytes_per_pass(tmp_path / "meta-llama" / "no-such-directory", "bfloat16", None) is None


def test_a_token_of_llama_8b_takes_128_kib_of_kv_cache(tmp_path: Path) -> None:
    assert kv_bytes_per_token(model(tmp_path / "m", 16), "bfloat16") == 128 * 1024
    latent = model(tmp_path / "latent", 1, kv_lora_rank=512)
    assert kv_bytes_per_token(latent, "bfloat16") is None


def test_weights_change_size_with_the_precision_they_run_in(tmp_path: Path) -> None:
    target = model(tmp_path / "m", 16)
    assert weight_bytes(target, "bfloat16", None) == int(16e9)
    assert weight_bytes(target, "float32", None) == int(32e9)
    assert weight_bytes(target, "bfloat16", "fp8") == int(8e9)
    quantized = model(tmp_path / "awq", 5, quantization_config={"quant_method": "awq"})
    assert weight_bytes(quantized, "bfloat16", "awq") == int(5e9)


def test_weights_that_are_there_twice_count_once_and_those_of_the_older_kind_count(tmp_path: Path) -> None:
    target = model(tmp_path / "m", 16)
    (target / "consolidated.safetensors").hardlink_to(target / "model.safetensors")
    assert weight_bytes(target, "bfloat16", None) == int(16e9)
    (target / "model.safetensors").unlink()
    assert weight_bytes(target, "bfloat16", None) == int(16e9)
    (target / "consolidated.safetensors").rename(target / "pytorch_model.bin")
    assert weight_bytes(target, "bfloat16", None) == int(16e9)


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_broken_model_configuration_is_a_sentence(tmp_path: Path, content: str) -> None:
    target = model(tmp_path / "m", 1)
    (target / "config.json").write_text(content)
    with pytest.raises(SpecbenchError, match=r"config\.json: not a model's configuration"):
        notes(target, config(device="cpu"))


def test_a_configuration_without_a_width_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match=r"config\.json gives no hidden_size"):
        notes(model(tmp_path / "m", 1, hidden_size=None), config(device="cpu"))
    assert kv_bytes_per_token(model(tmp_path / "n", 1, hidden_size=None, head_dim=128), "bfloat16") == 128 * 1024


@given(
    st.dictionaries(
        st.sampled_from([*LLAMA, "head_dim", "text_config", "max_position_embeddings", "rope_scaling"]),
        st.none() | st.integers(-1, 9) | st.text(max_size=3) | st.lists(st.integers(1, 9), max_size=2) | st.just({}),
    )
)
def test_whatever_a_configuration_holds_the_answer_is_a_size_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, object]
) -> None:
    with suppress(SpecbenchError):
        notes(model(tmp_path_factory.mktemp("m") / "m", 0.001, **fields), config(device="cpu"))


@pytest.mark.usefixtures("gpus")
def test_a_small_share_of_what_the_weights_leave_is_no_small_device(tmp_path: Path) -> None:
    """TensorRT-LLM's share is of what is free once the weights are loaded: 10% of 64 GB holds a request, or all."""
    target = model(tmp_path / "m", 16)
    small = {"memory_fraction": 0.1, "batch_size": [8]}
    with pytest.raises(SpecbenchError, match="the device has 7"):
        notes(target, config(**small))
    assert notes(target, config(backend="tensorrt-llm", container="trtllm:1.2.1", **small)) == []
    [tight] = notes(target, config(backend="tensorrt-llm", container="trtllm:1.2.1", **{**small, "batch_size": [64]}))
    assert "The KV cache (6.0 GiB) holds 11 requests" in tight


class TestLength:
    def test_a_request_longer_than_the_model_has_positions_is_refused_with_the_limit(self, tmp_path: Path) -> None:
        target = model(tmp_path / "m", 1, max_position_embeddings=4096)
        notes(target, config(device="cpu", max_model_len=4096))
        with pytest.raises(SpecbenchError, match=r"--max-model-len 4097 .* Its limit is 4096"):
            notes(target, config(device="cpu", max_model_len=4097))

    def test_of_a_multimodal_model_the_text_part_counts(self, tmp_path: Path) -> None:
        target = model(tmp_path / "m", 1, text_config={**LLAMA, "max_position_embeddings": 1024})
        with pytest.raises(SpecbenchError, match="Its limit is 1024"):
            notes(target, config(device="cpu"))

    def test_a_stretched_rope_or_an_argument_for_the_engine_leaves_it_to_the_engine(self, tmp_path: Path) -> None:
        target = model(tmp_path / "m", 1, max_position_embeddings=1024)
        notes(target, config(device="cpu", engine_arg=["--hf-overrides={}"]))
        yarn = {"rope_type": "yarn", "factor": 4.0}
        notes(model(tmp_path / "yarn", 1, max_position_embeddings=1024, rope_scaling=yarn), config(device="cpu"))


@pytest.mark.usefixtures("gpus")
class TestOnGpus:
    def test_what_fits_is_not_spoken_of(self, tmp_path: Path) -> None:
        assert notes(model(tmp_path / "m", 16), config()) == []

    def test_weights_above_the_memory_are_refused_unless_they_are_split(self, tmp_path: Path) -> None:
        target, drafter = model(tmp_path / "m", 70), model(tmp_path / "d", 16)
        with pytest.raises(SpecbenchError, match=r"take about 80\.1 GiB, and the device has 67\.1 GiB"):
            notes(target, config(), drafter)
        assert notes(target, config(tensor_parallel=2), drafter) == []

    def test_a_cache_for_less_than_one_request_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SpecbenchError, match=r"4096 tokens needs 0\.5 GiB of KV cache"):
            notes(model(tmp_path / "m", 16), config(kv_cache="100MiB"))

    def test_the_cache_is_of_each_gpu(self, tmp_path: Path) -> None:
        target = model(tmp_path / "m", 16)
        assert "(2.0 GiB) holds 4" in notes(target, config(kv_cache="1GiB", tensor_parallel=2))[0]
        other = config(kv_cache="1GiB", tensor_parallel=2, backend="tensorrt-llm", container="trtllm:1.2.1")
        assert "(2.0 GiB) holds 4" in notes(target, other)[0]

    def test_a_cache_for_less_than_the_largest_batch_is_noted(self, tmp_path: Path) -> None:
        assert "holds 4 requests" in notes(model(tmp_path / "m", 16), config(kv_cache="2GiB"))[0]


def test_a_gpu_that_is_not_to_be_seen_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "list_gpus", list)
    monkeypatch.setattr(preflight, "silent_gpus", list)
    assert "no GPU is to be seen" in notes(model(tmp_path / "m", 16), config())[0]


def test_an_amd_gpu_is_noted_as_not_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "list_gpus", list)
    monkeypatch.setattr(preflight, "silent_gpus", list)
    monkeypatch.setattr(inventory, "AMD_DEVICE", tmp_path)
    assert "AMD's GPUs are not supported yet" in notes(model(tmp_path / "m", 16), config())[0]


def test_the_cost_of_starts_is_their_number_times_their_length() -> None:
    plan = make_plan(config(gamma=[2, 4], replicates=3))
    assert describe_starts(plan, 60) == "9 server starts of about 60 s each, 9 min in all"


def test_how_much_there_is_to_decode_is_told_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text("".join(f'{{"prompt": "Hi {i}", "max_tokens": 50}}\n' for i in range(20)))
    workloads = {"chat": load_workload(file)}
    closed = SweepConfig(workload=(file,), batch_size=(1,), replicates=3)
    assert describe_load(make_plan(closed), workloads, closed) == (
        "up to 6,000 output tokens: about 60 s at 100 tokens per second"  # 2 arms × 3 replicates × 20 prompts × 50
    )
    open_loop = SweepConfig(workload=(file,), request_rate=(0.5,), replicates=3)
    assert describe_load(make_plan(open_loop), workloads, open_loop) == "requests that come over about 4 min"
