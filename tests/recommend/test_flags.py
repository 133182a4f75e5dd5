"""What an engine is told, word by word."""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from specbench.backends.base import EngineOptions, Launch
from specbench.backends.reference import ReferenceBackend
from specbench.backends.vllm import VllmBackend
from specbench.errors import UnsupportedSpeculation
from specbench.recommend.draws import Range
from specbench.recommend.flags import Paste, paste
from specbench.schedule import Schedule
from specbench.speculation import DRAFTERLESS, Speculation

SCHEDULE = Schedule.parse("1=4+5=2+9=0")
GAIN = Range(1.2, 1.1, 1.3)


def pasted(engine: str, method: str, schedule: Schedule = SCHEDULE, gain: Range | None = GAIN, **config: Any) -> Paste:
    drafter = None if method in DRAFTERLESS else "/models/head"
    made = paste(
        engine,
        Speculation.scheduled(method, schedule, drafter),
        Speculation(method, 2, drafter),
        gain,
        {"target": "/models/llama", **config},
        8,
    )
    assert made is not None
    return made


def words_of(made: Paste) -> list[str]:
    assert made.command is not None
    return shlex.split(made.command)


def test_vllm_gets_a_table_from_1_to_more_requests_than_it_decodes() -> None:
    words = words_of(pasted("vllm", "eagle3"))
    assert words[:-1] == ["vllm", "serve", "/models/llama", "--max-num-seqs", "8", "--speculative-config"]
    assert json.loads(words[-1]) == {
        "method": "eagle3",
        "model": "/models/head",
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 4, 4], [5, 8, 2], [9, 4096, 0]],
    }


def test_vllm_gets_one_gamma_for_methods_whose_proposer_knows_no_other() -> None:
    made = pasted("vllm", "suffix")
    assert json.loads(words_of(made)[-1])["num_speculative_tokens"] == 2
    assert "per_batch_size" not in " ".join(words_of(made))
    assert "one gamma for all batch sizes" in made.notes[0]
    with pytest.raises(UnsupportedSpeculation, match="one gamma for all batch sizes with suffix"):
        VllmBackend().check(Speculation.scheduled("suffix", SCHEDULE))


def test_a_launch_of_vllm_carries_the_same_table_up_to_its_own_limit() -> None:
    launch = Launch(
        Path("/models/llama"), "llama", Speculation.scheduled("ngram", SCHEDULE), max_batch_size=16,
        options=EngineOptions(python=Path("python")),
    )  # fmt: skip
    argv = VllmBackend().command(launch).argv
    config = json.loads(argv[argv.index("--speculative-config") + 1])
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 4, 4], [5, 8, 2], [9, 16, 0]]
    assert config["num_speculative_tokens"] == 4


def test_sglang_gets_a_file_with_one_candidate_from_each_batch_size_on() -> None:
    made = pasted("sglang", "eagle3")
    words = words_of(made)
    assert json.loads(made.files["sglang-schedule.json"]) == {
        "1": {"candidate_steps": [4]},
        "5": {"candidate_steps": [2]},
        "9": {"candidate_steps": [0]},
    }
    flags = dict(pairwise(words))
    # SGLang refuses steps that are none of the candidates, and wants all three together.
    assert flags["--speculative-num-steps"] == "4"
    assert (flags["--speculative-eagle-topk"], flags["--speculative-num-draft-tokens"]) == ("1", "5")
    assert flags["--speculative-adaptive-config"] == "sglang-schedule.json"
    assert "--speculative-adaptive" in words


def test_sglang_gets_one_gamma_for_what_is_no_eagle_head() -> None:
    made = pasted("sglang", "ngram")
    assert "--speculative-num-draft-tokens 3 --speculative-ngram-max-bfs-breadth 1" in str(made.command)
    assert made.files == {}
    assert "With ngram SGLang has one gamma" in made.notes[0]


def test_tensorrt_llm_gets_a_file_for_each_reading_of_its_schedule() -> None:
    files = {
        name: yaml.safe_load(text)["speculative_config"] for name, text in pasted("tensorrt-llm", "ngram").files.items()
    }
    assert files["config-1.2.yaml"]["draft_len_schedule"] == {1: 4, 5: 2, 9: 0}  # smallest batch of each length
    assert files["config-1.3.yaml"]["draft_len_schedule"] == {4: 4, 8: 2}  # largest batch, off above
    later = pasted("tensorrt-llm", "ngram", Schedule.parse("1=0+4=4"))
    assert "draft_len_schedule" not in "".join(later.files.values())
    assert "begin with their largest gamma" in later.notes[-1]


def test_the_reference_decoder_gets_the_schedule() -> None:
    made = pasted("reference", "ngram", target="demo")
    gamma = f"schedule:{SCHEDULE}"
    assert made.command == f"specbench serve --target demo --method ngram --gamma {gamma} --max-batch-size 8"
    ReferenceBackend().check(Speculation.of("ngram", gamma))


def test_names_with_spaces_stay_one_word() -> None:
    assert words_of(pasted("vllm", "ngram", target="/my models/it's"))[2] == "/my models/it's"


def test_an_engine_without_known_flags_gets_none() -> None:
    assert paste("attach", Speculation.scheduled("ngram", SCHEDULE), Speculation("ngram", 2), None, {}, 8) is None


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm"])
@pytest.mark.parametrize(
    ("gain", "says"), [(Range(0.82, 0.8, 0.84), "is 0.82 times as fast over this concurrency"), (None, "not measured")]
)
def test_one_gamma_that_gains_nothing_is_not_to_be_pasted(engine: str, gain: Range | None, says: str) -> None:
    method = {"vllm": "suffix", "sglang": "ngram", "tensorrt-llm": "eagle3"}[engine]
    made = pasted(engine, method, Schedule.parse("1=0+4=4"), gain)
    assert (made.command, made.files) == (None, {})
    assert says in " ".join(made.notes)
    assert pasted(engine, method, Schedule.parse("1=0+4=4")).command is not None


def test_one_gamma_that_gains_says_how_much_and_up_to_how_many_requests() -> None:
    assert "1.20 times as fast over this concurrency, with at most 8 requests" in pasted("sglang", "ngram").notes[0]


def test_a_schedule_is_pasted_whatever_one_gamma_does() -> None:
    assert "1,4,4" in str(pasted("vllm", "ngram", gain=None).command)


RUN: dict[str, Any] = {
    "dtype": "bfloat16", "device": "cuda", "max_model_len": 8192, "tensor_parallel": 4, "quantization": "fp8",
    "memory_fraction": 0.85, "kv_cache": 1 << 30, "engine_arg": ["--enable-chunked-prefill --block-size 32"],
}  # fmt: skip


def test_what_the_run_told_its_engine_is_told_again() -> None:
    flags = dict(pairwise(words_of(pasted("vllm", "ngram", backend="vllm", **RUN))))
    assert (flags["--dtype"], flags["--max-model-len"], flags["--max-num-seqs"]) == ("bfloat16", "8192", "8")
    assert (flags["--tensor-parallel-size"], flags["--quantization"]) == ("4", "fp8")
    assert (flags["--gpu-memory-utilization"], flags["--kv-cache-memory-bytes"]) == ("0.85", str(1 << 30))
    assert (flags["--enable-chunked-prefill"], flags["--block-size"]) == ("--block-size", "32")
    flags = dict(pairwise(words_of(pasted("sglang", "eagle3", backend="sglang", **RUN))))
    assert (flags["--dtype"], flags["--context-length"], flags["--tp-size"]) == ("bfloat16", "8192", "4")
    assert (flags["--quantization"], flags["--mem-fraction-static"], flags["--block-size"]) == ("fp8", "0.85", "32")
    words = words_of(pasted("reference", "ngram", backend="reference", dtype="bfloat16", max_model_len=512, threads=2))
    flags = dict(pairwise(words))
    assert (flags["--dtype"], flags["--max-model-len"], flags["--threads"]) == ("bfloat16", "512", "2")


def test_tensorrt_llms_settings_of_the_run_are_in_its_file() -> None:
    run: dict[str, Any] = {**RUN, "engine_arg": ["--log_level info", "moe_config.backend=TRTLLM"]}
    made = pasted("tensorrt-llm", "ngram", backend="tensorrt-llm", **run)
    flags = dict(pairwise(words_of(made)))
    assert (flags["--max_seq_len"], flags["--tp_size"], flags["--log_level"]) == ("8192", "4", "info")
    settings = yaml.safe_load(made.files["config-1.3.yaml"])
    assert settings["kv_cache_config"]["free_gpu_memory_fraction"] == 0.85
    assert settings["moe_config"] == {"backend": "TRTLLM"}
    assert settings["dtype"] == "bfloat16"
    assert settings["speculative_config"]["draft_len_schedule"] == {4: 4, 8: 2}
    assert "enable_iter_perf_stats" not in settings


def test_what_a_simulation_was_told_is_not_told_to_an_engine() -> None:
    assert "--dtype" not in words_of(pasted("vllm", "ngram", backend="simulated", **RUN))
