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
from specbench.recommend.flags import Paste, paste
from specbench.schedule import Schedule
from specbench.speculation import DRAFTERLESS, Speculation

SCHEDULE = Schedule.parse("1=4+5=2+9=0")


def pasted(engine: str, method: str, schedule: Schedule = SCHEDULE, **config: Any) -> Paste:
    drafter = None if method in DRAFTERLESS else "/models/head"
    made = paste(
        engine,
        Speculation.scheduled(method, schedule, drafter),
        Speculation(method, 2, drafter),
        {"target": "/models/llama", **config},
        8,
    )
    assert made is not None
    return made


def test_vllm_gets_a_table_from_1_to_more_requests_than_it_decodes() -> None:
    words = shlex.split(pasted("vllm", "eagle3").command)
    assert words[:-1] == ["vllm", "serve", "/models/llama", "--max-num-seqs", "8", "--speculative-config"]
    assert json.loads(words[-1]) == {
        "method": "eagle3",
        "model": "/models/head",
        "num_speculative_tokens": 4,
        "num_speculative_tokens_per_batch_size": [[1, 4, 4], [5, 8, 2], [9, 4096, 0]],
    }


def test_vllm_gets_one_gamma_for_methods_whose_proposer_knows_no_other() -> None:
    made = pasted("vllm", "suffix")
    assert json.loads(shlex.split(made.command)[-1])["num_speculative_tokens"] == 2
    assert "per_batch_size" not in made.command
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
    words = shlex.split(made.command)
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
    assert "--speculative-num-draft-tokens 3 --speculative-ngram-max-bfs-breadth 1" in made.command
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


def test_the_reference_decoder_gets_the_best_fixed_gamma() -> None:
    made = pasted("reference", "ngram", target="demo")
    assert made.command == "specbench serve --target demo --method ngram --gamma 2 --max-batch-size 8"
    with pytest.raises(UnsupportedSpeculation, match="one gamma for all batch sizes"):
        ReferenceBackend().check(Speculation.scheduled("ngram", SCHEDULE))


def test_names_with_spaces_stay_one_word() -> None:
    assert shlex.split(pasted("vllm", "ngram", target="/my models/it's").command)[2] == "/my models/it's"


def test_an_engine_without_known_flags_gets_none() -> None:
    assert paste("attach", Speculation.scheduled("ngram", SCHEDULE), Speculation("ngram", 2), {}, 8) is None
