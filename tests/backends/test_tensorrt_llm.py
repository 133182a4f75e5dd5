"""TensorRT-LLM's command line and configuration file, for every method and both grammars; nothing runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends import get_backend
from specbench.backends.base import Command, Container, EngineOptions, Launch
from specbench.backends.tensorrt_llm import TensorrtLlmBackend
from specbench.backends.tensorrt_llm_schema import check_configuration
from specbench.backends.tensorrt_llm_version import Grammar, engine_version
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.schedule import Schedule
from specbench.speculation import BASELINE, DRAFTERLESS, Speculation

PYTHON = Path("/engine/bin/python")
OLD, NEW = "1.2.1", "1.3.0rc27"
METHODS = {OLD: ("ngram", "draft_model", "eagle3", "mtp"), NEW: ("ngram", "suffix", "draft_model", "eagle3", "mtp")}
BACKEND = TensorrtLlmBackend()


def speculation(method: str, gamma: int = 4, schedule: str | None = None) -> Speculation:
    return Speculation(method, gamma, None if method in DRAFTERLESS else "/models/head", schedule=schedule)


def launch(of: Speculation = BASELINE, version: str = OLD, arguments: tuple[str, ...] = (), **changes: Any) -> Launch:
    options = changes.pop("options", EngineOptions(python=PYTHON))
    options = replace(options, engine_version=options.engine_version or version, engine_args=arguments)
    base = Launch(Path("/models/target"), "target", of, 16, 4096, "bfloat16", "cuda", options=options)
    return replace(base, **changes)


def command(of: Speculation = BASELINE, version: str = OLD, arguments: tuple[str, ...] = (), **changes: Any) -> Command:
    return BACKEND.command(launch(of, version, arguments, **changes))


def settings(made: Command) -> dict[str, Any]:
    (content,) = made.files.values()
    parsed: dict[str, Any] = yaml.safe_load(content)
    return parsed


def refusal(*arguments: Any, **changes: Any) -> str:
    with pytest.raises(SpecbenchError) as refused:
        command(*arguments, **changes)
    return str(refused.value)


def test_the_command_line_and_the_file_of_a_baseline() -> None:
    made = command()
    assert " ".join(made.argv) == (
        "/engine/bin/trtllm-serve serve /models/target --backend pytorch --host 127.0.0.1 --port {port} "
        "--max_batch_size 16 --max_seq_len 4096 --max_num_tokens 8192 --tp_size 1 "
        "--extra_llm_api_options {files}/trtllm-none.yaml"
    )
    assert settings(made) == {
        "dtype": "bfloat16",
        "enable_iter_perf_stats": True,
        "kv_cache_config": {"enable_block_reuse": False},
        "cuda_graph_config": {"enable_padding": True, "max_batch_size": 16},
        "disable_overlap_scheduler": False,
    }
    assert made.env == {"TRTLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


@pytest.mark.parametrize(
    ("version", "method", "config"),
    [
        (OLD, "ngram", {"decoding_type": "NGram", "max_matching_ngram_size": 4, "is_public_pool": False}),
        (OLD, "draft_model", {"decoding_type": "DraftTarget"}),
        (OLD, "eagle3", {"decoding_type": "Eagle", "eagle3_one_model": True, "allow_advanced_sampling": True}),
        (
            OLD,
            "mtp",
            {"decoding_type": "MTP", "num_nextn_predict_layers": 4, "allow_advanced_sampling": True},
        ),
        (NEW, "ngram", {"decoding_type": "NGram", "max_matching_ngram_size": 4, "is_public_pool": False}),
        (NEW, "suffix", {"decoding_type": "SA", "allow_advanced_sampling": True}),
        (NEW, "draft_model", {"decoding_type": "Draft_Target", "allow_advanced_sampling": True}),
        (NEW, "eagle3", {"decoding_type": "Eagle3", "allow_advanced_sampling": True}),
        (
            NEW,
            "mtp",
            {"decoding_type": "MTP", "num_nextn_predict_layers": 4, "allow_advanced_sampling": True},
        ),
    ],
)
def test_the_speculation_of_every_method_in_both_grammars(version: str, method: str, config: dict[str, Any]) -> None:
    drafter = {} if method in DRAFTERLESS else {"speculative_model_dir": "/models/head"}
    written = settings(command(speculation(method), version))["speculative_config"]
    assert written == {**config, "max_draft_len": 4, **drafter}


@given(
    st.sampled_from([OLD, NEW]).flatmap(
        lambda version: st.tuples(
            st.just(version), st.lists(st.sampled_from(METHODS[version]), min_size=1, unique=True)
        )
    ),
    st.integers(1, 16),
    st.booleans(),
    st.booleans(),
)
def test_arms_differ_in_the_speculation_alone(
    version_and_methods: tuple[str, list[str]], gamma: int, matched: bool, prefix_caching: bool
) -> None:
    version, methods = version_and_methods
    shared = {
        "methods": tuple(methods),
        "matched": matched,
        "options": EngineOptions(python=PYTHON, prefix_caching=prefix_caching),
    }
    plain = command(version=version, **shared)
    for method in methods:
        arm = command(speculation(method, gamma), version, **shared)
        assert [word for word in arm.argv if "{files}" not in word] == [w for w in plain.argv if "{files}" not in w]
        assert arm.env == plain.env
        written = settings(arm)
        assert written.pop("speculative_config")["max_draft_len"] == gamma
        assert written == settings(plain)


@pytest.mark.parametrize(
    ("version", "methods", "disabled"),
    [
        (OLD, ("eagle3",), False),
        (OLD, ("eagle3", "ngram"), True),
        (OLD, ("draft_model",), True),
        (NEW, ("draft_model", "suffix"), False),
        (NEW, ("mtp", "ngram"), True),
    ],
)
def test_what_one_method_cannot_do_with_overlap_no_arm_does(
    version: str, methods: tuple[str, ...], disabled: bool
) -> None:
    for method in (*methods, "none"):
        of = BASELINE if method == "none" else speculation(method)
        assert settings(command(of, version, methods=methods))["disable_overlap_scheduler"] is disabled


def test_as_deployed_leaves_the_engine_its_own_choice() -> None:
    made = command(speculation("ngram"), methods=("ngram",), matched=False)
    assert "--max_num_tokens" not in made.argv
    assert set(settings(made)) == {"dtype", "enable_iter_perf_stats", "kv_cache_config", "speculative_config"}
    assert settings(made)["kv_cache_config"] == {}


def test_a_container_runs_its_own_entry_point_and_sees_models_and_file() -> None:
    options = EngineOptions(
        container=Container("nvcr.io/nvidia/tensorrt-llm/release:1.2.1"), tensor_parallel=2, memory_fraction=0.8
    )
    made = BACKEND.command(replace(launch(speculation("eagle3")), options=options))
    words = " ".join(made.argv)
    gpus = "--gpus all --env CUDA_VISIBLE_DEVICES"
    assert words.startswith(f"docker run --rm --init --name specbench-{{port}} {gpus} --ipc=host")
    assert "--entrypoint" not in words
    assert "--ulimit memlock=-1 --ulimit stack=67108864 nvcr.io/nvidia/tensorrt-llm/release:1.2.1 trtllm-serve" in words
    for path in ("/models/target", "/models/head", "{files}"):
        assert f"--volume {path}:{path}:ro" in words
    assert "--host 0.0.0.0 --port 8000" in words
    assert "--tp_size 2" in words
    assert settings(made)["kv_cache_config"]["free_gpu_memory_fraction"] == 0.8
    assert made.cleanup == ("docker", "rm", "--force", "specbench-{port}")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/tensorrt-llm/release:1.2.1", "1.2.1"),
        ("registry:5000/trt/release:v1.3.0rc5@sha256:abc", "1.3.0rc5"),
        ("release:latest", None),
        ("registry:5000/release", None),
    ],
)
def test_an_images_tag_tells_its_version(image: str, version: str | None) -> None:
    options = EngineOptions(container=Container(image))
    if version is not None:
        assert engine_version(options) == version
    else:
        with pytest.raises(SpecbenchError, match="nothing tells which this is"):
            engine_version(options)
    assert engine_version(replace(options, engine_version="1.3.0")) == "1.3.0"


def test_an_environment_tells_its_version(tmp_path: Path) -> None:
    (tmp_path / "lib/python3.12/site-packages/tensorrt_llm-1.2.1.dist-info").mkdir(parents=True)
    assert engine_version(EngineOptions(python=tmp_path / "bin/python")) == "1.2.1"


def test_a_version_that_nobody_has_read_is_taken_for_the_nearest(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert Grammar.of("2.0.0") is Grammar.SINCE_1_3
        assert Grammar.of("0.21.0") is Grammar.UNTIL_1_2
    assert [record.message.startswith("TensorRT-LLM") for record in caplog.records] == [True, True]
    with pytest.raises(SpecbenchError, match="expected a version of TensorRT-LLM"):
        Grammar.of("newest")


SCHEDULES = st.lists(st.tuples(st.integers(2, 15), st.integers(0, 8)), max_size=4, unique_by=lambda step: step[0])


@given(SCHEDULES, st.integers(1, 8))
def test_a_schedule_means_the_same_in_both_grammars(steps: list[tuple[int, int]], first: int) -> None:
    below = [(start, min(gamma, first)) for start, gamma in sorted(steps)]
    schedule = Schedule(((1, first), *below))
    written = {
        version: settings(command(speculation("ngram", first, str(schedule)), version))["speculative_config"]
        for version in (OLD, NEW)
    }
    starts, ends = (written[version]["draft_len_schedule"] for version in (OLD, NEW))
    for size in range(1, 17):  # the launch's batch size
        assert starts[max(start for start in starts if start <= size)] == schedule.at(size)
        assert ends.get(min((end for end in ends if end >= size), default=0), 0) == schedule.at(size)
    assert written[OLD]["max_draft_len"] == written[NEW]["max_draft_len"] == first


def test_schedules_that_it_cannot_run() -> None:
    assert "one gamma for all batch sizes" in refusal(speculation("eagle3", 4, "1=4+5=2"))
    assert command(speculation("eagle3", 4, "1=4+5=2"), NEW).files
    assert "begin with their largest gamma" in refusal(speculation("ngram", 4, "1=2+5=4"))


@pytest.mark.parametrize(
    ("method", "sentence"),
    [
        ("eagle", "EAGLE-3 heads alone. Nearest: --method eagle3"),
        ("medusa", "old engine format alone, which specbench does not drive. Nearest: --method eagle3"),
    ],
)
def test_methods_that_its_pytorch_backend_lacks(method: str, sentence: str) -> None:
    with pytest.raises(UnsupportedSpeculation, match=sentence):
        BACKEND.check(speculation(method))
    assert method not in BACKEND.methods


def test_what_it_cannot_do_is_refused_before_anything_starts() -> None:
    assert "does not run suffix" in refusal(speculation("suffix"))
    assert "NVIDIA GPUs alone" in refusal(device="cpu")
    assert "CUDA_VISIBLE_DEVICES=3" in refusal(device="cuda:3")
    assert "no coupled verification" in refusal(verification="coupled")
    assert "no processed log-probabilities" in refusal(logprobs="processed")
    assert "--python PATH, or --container IMAGE" in refusal(options=EngineOptions())


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("--max_batch_size=8", "specbench sets this itself. Use --batch-size"),
        ("--max-seq-len", "Use --max-model-len"),
        ("--extra_llm_api_options", "Use --engine-arg NAME=VALUE"),
        ("speculative_config.max_draft_len=3", "use --gamma"),
        ("speculative_config.max_concurrency=8", "switch speculation off in the middle"),
        ("enable_iter_perf_stats=false", "acceptance is read from it"),
        ("disable_overlap_scheduler=true", "the same in all arms"),
        ("kv_cache_config.page=3", "kv_cache_config.page is no setting of it"),
        ("kv_cahce_config.dtype=fp8", "kv_cahce_config is no setting of it"),
        ("kv_cache_config.dtype=[", "no YAML value"),
        ("dtype.name=x", "dtype is no group of settings"),
        ("speculative_config.greedy_sampling=3", "speculative_config.greedy_sampling"),
    ],
)
def test_engine_arguments_that_are_refused(argument: str, sentence: str) -> None:
    assert sentence in refusal(speculation("eagle3"), OLD, (argument,))


def test_settings_go_into_the_file_and_flags_on_the_command_line() -> None:
    arguments = ("kv_cache_config.dtype=fp8", "speculative_config.max_matching_ngram_size=2", "--trust_remote_code")
    arm = command(speculation("ngram"), OLD, arguments)
    assert arm.argv[-1] == "--trust_remote_code"
    assert settings(arm)["kv_cache_config"] == {"enable_block_reuse": False, "dtype": "fp8"}
    assert settings(arm)["speculative_config"]["max_matching_ngram_size"] == 2
    assert "speculative_config" not in settings(command(BASELINE, OLD, arguments))


@pytest.mark.parametrize("version", [OLD, NEW])
def test_the_schema_refuses_what_the_engine_would(version: str) -> None:
    grammar = Grammar.of(version)
    ngram, eagle = {OLD: ("NGram", "Eagle"), NEW: ("NGram", "Eagle3")}[version]
    lookup = {"decoding_type": ngram, "max_draft_len": 4, "max_matching_ngram_size": 4}
    other = {OLD: "Eagle3", NEW: "Eagle"}[version]
    for config, sentence in [
        ({"decoding_type": ngram, "max_matching_ngram_size": 4}, "max_draft_len is missing"),
        ({**lookup, "max_draft_len": 0}, "max_draft_len"),
        ({**lookup, "max_draft_len": True}, "max_draft_len"),
        ({**lookup, "draft_length": 4}, "draft_length is no setting of it"),
        ({"decoding_type": eagle, "max_draft_len": 4}, "the drafter is missing"),
        ({"decoding_type": other, "max_draft_len": 4, "speculative_model_dir": "/h"}, "speculative_config"),
        ({"decoding_type": "Medusa", "max_draft_len": 4}, "speculative_config"),
        ({"decoding_type": "Lookahead", "max_draft_len": 4}, "speculative_config"),
        ({"decoding_type": "User_Provided", "max_draft_len": 4}, "speculative_config"),
        ({"max_draft_len": 4}, "speculative_config"),
    ]:
        with pytest.raises(SpecbenchError) as refused:
            check_configuration({"speculative_config": config}, grammar)
        assert str(refused.value).startswith(f"TensorRT-LLM {grammar.value}: ")
        assert sentence in str(refused.value)
    graphs = {"batch_sizes": [1, 2], "max_batch_size": 2}
    with pytest.raises(SpecbenchError, match="cuda_graph_config"):
        check_configuration({"cuda_graph_config": graphs}, grammar)


def test_it_is_among_the_backends() -> None:
    assert get_backend("tensorrt-llm").name == "tensorrt-llm"
