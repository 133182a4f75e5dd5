"""vLLM's adapter without vLLM: the command of every method, and what is refused before a start."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.backends.base import Command, Container, EngineCounters, EngineOptions, Launch
from specbench.backends.vllm import VllmBackend
from specbench.backends.vllm_counters import counters_between
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.schedule import Schedule
from specbench.speculation import DRAFTERLESS, METHODS, OWN, Speculation
from specbench.telemetry.prometheus import parse

PYTHON = Path("/engines/vllm/bin/python")
LAUNCH = Launch(
    target=Path("/models/target"),
    target_name="demo",
    max_batch_size=8,
    max_model_len=2048,
    options=EngineOptions(python=PYTHON),
)


def command(speculation: Speculation | None = None, **changes: object) -> Command:
    changed = replace(LAUNCH, **changes)
    return VllmBackend().command(replace(changed, speculation=speculation) if speculation else changed)


def value(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def test_the_command_of_the_baseline_on_a_cpu() -> None:
    made = command()
    assert made.argv == (
        *(str(PYTHON), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "/models/target", "--served-model-name", "demo"),
        *("--host", "127.0.0.1", "--port", "{port}"),
        *("--max-num-seqs", "8", "--max-model-len", "2048", "--dtype", "float32", "--enforce-eager"),
        *("--kv-cache-memory-bytes", str(2 << 30)),
        *("--no-enable-prefix-caching", "--no-async-scheduling"),
        "--enable-per-request-metrics",
        *("--generation-config", "vllm"),
    )
    assert made.env == {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "HF_HUB_OFFLINE": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
    }


@pytest.mark.parametrize(
    ("method", "config"),
    [
        ("ngram", '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'),
        ("suffix", '{"method":"suffix","num_speculative_tokens":4,"suffix_decoding_max_cached_requests":0}'),
        ("mtp", '{"method":"mtp","num_speculative_tokens":4}'),
        ("draft_model", '{"method":"draft_model","num_speculative_tokens":4,"model":"/models/drafter"}'),
        ("eagle3", '{"method":"eagle3","num_speculative_tokens":4,"model":"/models/drafter"}'),
        ("eagle", '{"method":"eagle","num_speculative_tokens":4,"model":"/models/drafter"}'),
        ("medusa", '{"method":"medusa","num_speculative_tokens":4,"model":"/models/drafter"}'),
    ],
)
def test_the_speculative_config_of_every_method(method: str, config: str) -> None:
    speculation = Speculation(method, 4, None if method in DRAFTERLESS else "/models/drafter")
    argv = command(speculation).argv
    assert value(argv, "--speculative-config") == config
    # vLLM refuses this flag without speculation.
    assert value(argv, "--per-request-spec-decode-metrics") == "detailed"
    assert set(METHODS) - set(OWN) == {"none", "ngram", "suffix", "mtp", "draft_model", "eagle3", "eagle", "medusa"}


def test_suffix_decoding_remembers_as_many_requests_as_it_was_asked_to() -> None:
    config = json.loads(value(command(Speculation("suffix", 4, cached_requests=32)).argv, "--speculative-config"))
    assert config == {"method": "suffix", "num_speculative_tokens": 4, "suffix_decoding_max_cached_requests": 32}


@pytest.mark.parametrize("method", OWN)
def test_methods_of_the_reference_decoder_alone_are_refused(method: str) -> None:
    drafter = None if method in DRAFTERLESS else "/models/drafter"
    with pytest.raises(UnsupportedSpeculation, match=f"vLLM does not run {method} here"):
        VllmBackend().check(Speculation(method, 4, drafter))


def test_on_gpus_memory_quantization_and_parallelism_are_set() -> None:
    options = EngineOptions(tensor_parallel=4, quantization="fp8", memory_fraction=0.9, python=PYTHON)
    argv = command(device="cuda", dtype="bfloat16", options=options).argv
    assert value(argv, "--tensor-parallel-size") == "4"
    assert value(argv, "--quantization") == "fp8"
    assert value(argv, "--gpu-memory-utilization") == "0.9"
    assert "--enforce-eager" not in argv
    assert "--kv-cache-memory-bytes" not in argv
    assert "--device-ids" not in argv


@pytest.mark.parametrize(("tensor_parallel", "numbers"), [(1, "2"), (4, "2,3,4,5")])
def test_the_gpus_are_those_from_the_named_one_on(tensor_parallel: int, numbers: str) -> None:
    options = EngineOptions(tensor_parallel=tensor_parallel, python=PYTHON)
    assert value(command(device="cuda:2", options=options).argv, "--device-ids") == numbers


methods = st.sampled_from([m for m in METHODS if m not in ("none", *OWN)])


@given(st.lists(methods, min_size=1, unique=True), st.sampled_from(["cpu", "cuda"]), st.booleans())
def test_arms_differ_in_the_speculation_alone(names: list[str], device: str, prefix_caching: bool) -> None:
    options = EngineOptions(prefix_caching=prefix_caching, python=PYTHON)
    shared = {"methods": tuple(names), "device": device, "options": options}
    baseline = command(**shared).argv
    for name in names:
        speculation = Speculation(name, 2, None if name in DRAFTERLESS else "/d")
        argv = list(command(speculation, **shared).argv)
        begin = argv.index("--speculative-config")
        assert (*argv[:begin], *argv[begin + 4 :]) == baseline


@pytest.mark.parametrize(
    ("methods", "flag"),
    [(("eagle3", "draft_model"), "--async-scheduling"), (("eagle3", "ngram"), "--no-async-scheduling")],
)
def test_one_method_without_async_scheduling_switches_it_off_in_every_arm(methods: tuple[str, ...], flag: str) -> None:
    assert flag in command(device="cuda", methods=methods).argv
    assert flag in command(Speculation("eagle3", 2, "/d"), device="cuda", methods=methods).argv


@pytest.mark.parametrize("older", ["suffix", "medusa"])
def test_all_arms_run_on_the_model_runner_that_all_methods_run_on(older: str) -> None:
    def runner(*methods: str, **changes: object) -> list[str | None]:
        arms = [None, *(Speculation(name, 2, None if name in DRAFTERLESS else "/d") for name in methods)]
        made = (command(arm, methods=methods, **changes) for arm in arms)
        return [one.env.get("VLLM_USE_V2_MODEL_RUNNER") for one in made]

    assert runner("eagle3", older, device="cuda") == ["0", "0", "0"]
    assert runner("eagle3", "ngram", device="cuda") == [None, None, None]
    assert runner(older, device="cuda", matched=False) == [None, None]
    assert runner(older, device="cpu") == [None, None]


def graph_sizes(argv: tuple[str, ...]) -> list[int]:
    if "--cudagraph-capture-sizes" not in argv:
        return []
    words = argv[argv.index("--cudagraph-capture-sizes") + 1 :]
    return [int(word) for word in takewhile(str.isdigit, words)]


def test_large_passes_of_every_arm_have_cuda_graphs() -> None:
    large = {"device": "cuda", "max_batch_size": 256}
    assert graph_sizes(command(**large).argv) == []  # vLLM's own reach up to 512 tokens
    sizes = graph_sizes(command(Speculation("eagle3", 4, "/d"), **large).argv)
    assert {1, 2, 4, 8, 512, 5 * 104, 5 * 248, 5 * 256} <= set(sizes)
    assert sizes[-1] == 5 * 256
    assert graph_sizes(command(Speculation("eagle3", 1, "/d"), **large).argv) == []
    scheduled = Speculation.scheduled("eagle3", Schedule.parse("1=7+65=3+129=0"), "/d")
    sizes = graph_sizes(command(scheduled, device="cuda", max_batch_size=600).argv)
    assert {8 * 64, 4 * 128, 600} <= set(sizes)
    assert sizes[-1] == 600


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cpu"},
        {"matched": False},
        {"options": EngineOptions(python=PYTHON, engine_args=("--enforce-eager",))},
        {"options": EngineOptions(python=PYTHON, engine_args=("--max_cudagraph_capture_size=2048",))},
    ],
)
def test_cuda_graphs_are_left_alone_where_there_are_none_or_somebody_decided(changes: dict[str, object]) -> None:
    argv = command(Speculation("eagle3", 4, "/d"), **{"device": "cuda", "max_batch_size": 256, **changes}).argv
    assert graph_sizes(argv) == []


@pytest.mark.vllm
def test_vllms_own_parser_takes_what_a_gpu_is_started_with(vllm_python: Path) -> None:
    """Nothing is started."""
    argv = command(Speculation("eagle3", 4, "/d"), device="cuda:1", dtype="bfloat16", max_batch_size=256).argv
    script = (
        "import sys\n"
        "from vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "told = make_arg_parser(FlexibleArgumentParser()).parse_args(sys.argv[1:])\n"
        "print(told.device_ids, told.cudagraph_capture_sizes[-2:], told.dtype, told.async_scheduling)\n"
    )
    words = [word.replace("{port}", "8000") for word in argv[3:]]
    run = subprocess.run([vllm_python, "-c", script, *words], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[1] [1240, 1280] bfloat16 True"


def test_as_deployed_leaves_the_engine_its_own_defaults() -> None:
    argv = " ".join(command(matched=False).argv)
    assert "prefix-caching" not in argv
    assert "async-scheduling" not in argv


def test_threads_are_not_bound_to_cores_when_their_number_is_given() -> None:
    assert command(threads=2).env["OMP_NUM_THREADS"] == "2"
    assert command(threads=2).env["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_engine_arguments_come_last_so_they_win() -> None:
    assert command(options=EngineOptions(python=PYTHON, engine_args=("--block-size", "32"))).argv[-2:] == (
        "--block-size",
        "32",
    )


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("--speculative-model=x", "no longer has --speculative-model .*Write --drafter instead"),
        ("--num-speculative-tokens", "Write --gamma instead"),
        ("--max-num-seqs=4", "specbench sets this itself. Use --batch-size"),
        ("-tp=4", "specbench sets this itself. Use --tensor-parallel"),
        ("--tensor_parallel_size=4", "specbench sets this itself. Use --tensor-parallel"),
        ("--device-ids=1", "specbench sets this itself. Use --device cuda:N"),
        ("--tensor-p=4", "specbench sets this itself. Use --tensor-parallel"),
        ("--speculative-config={}", "Use --method, --drafter and --gamma"),
    ],
)
def test_engine_arguments_that_specbench_speaks_itself_are_refused(argument: str, sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        command(options=EngineOptions(python=PYTHON, engine_args=(argument,)))


def test_coupled_verification_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="vLLM has no coupled verification"):
        command(verification="coupled")


def test_without_an_interpreter_the_way_out_is_named() -> None:
    with pytest.raises(SpecbenchError, match="--python PATH, or --container IMAGE"):
        command(options=EngineOptions())


def test_in_a_container_models_are_mounted_read_only_and_the_port_is_on_loopback() -> None:
    snapshot = Path("/hub/models--org--head/snapshots/abc")
    made = command(
        Speculation("eagle3", 3, str(snapshot)),
        device="cuda",
        options=EngineOptions(container=Container("vllm/vllm-openai:v0.32.0")),
    )
    assert made.argv[:22] == (
        *("docker", "run", "--rm", "--init", "--name", "specbench-{port}"),
        *("--gpus", "all", "--env", "CUDA_VISIBLE_DEVICES", "--ipc=host"),
        *("--publish", "127.0.0.1:{port}:8000"),
        *("--volume", "/models/target:/models/target:ro"),
        # A snapshot is made of links into the repository beside it.
        *("--volume", "/hub/models--org--head:/hub/models--org--head:ro"),
        *("--env", "VLLM_NO_USAGE_STATS=1", "--env", "VLLM_SERVER_DEV_MODE=1", "--env"),
    )
    inside = made.argv[made.argv.index("--entrypoint") :]
    assert inside[:5] == (
        "--entrypoint",
        "python3",
        "vllm/vllm-openai:v0.32.0",
        "-m",
        "vllm.entrypoints.openai.api_server",
    )
    assert (value(inside, "--host"), value(inside, "--port")) == ("0.0.0.0", "8000")
    assert json.loads(value(inside, "--speculative-config"))["model"] == str(snapshot)
    assert made.cleanup == ("docker", "rm", "--force", "specbench-{port}")


def test_podman_names_gpus_in_its_own_way() -> None:
    argv = command(device="cuda", options=EngineOptions(container=Container("image", "podman"))).argv
    assert argv[:2] == ("podman", "run")
    assert value(argv, "--device") == "nvidia.com/gpu=all"


METRICS = """
vllm:generation_tokens_total{{engine="0"}} {generated}
vllm:generation_tokens_total{{engine="1"}} {generated}
vllm:time_to_first_token_seconds_count{{engine="0"}} {first}
vllm:time_to_first_token_seconds_count{{engine="1"}} {first}
vllm:num_preemptions_total{{engine="0"}} {preemptions}
"""
SPECULATION = """
vllm:spec_decode_num_drafts_total{{engine="0"}} {drafts}
vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} {accepted}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="1"}} 0
"""


def test_counters_are_summed_over_engines_and_steps_without_a_draft_follow_from_the_tokens() -> None:
    before = {"generated": 10, "first": 1, "preemptions": 0, "drafts": 2, "drafted": 4, "accepted": 1}
    after = {"generated": 60, "first": 3, "preemptions": 2, "drafts": 22, "drafted": 44, "accepted": 11}
    text = METRICS + SPECULATION
    counters = counters_between(parse(text.format(**before)), parse(text.format(**after)), 0.5)
    assert counters is not None
    assert counters.generated_tokens == 100
    assert counters.preemptions == 2
    assert counters.kv_usage_peak == 0.5
    assert counters.prefix_cache_hits is None
    acceptance = counters.acceptance
    assert acceptance is not None
    # 100 tokens: 4 from prefills, 10 accepted, so 86 steps, of which 20 had a draft.
    assert (acceptance.steps, acceptance.drafts, acceptance.drafted, acceptance.accepted) == (86, 20, 40, 10)
    assert acceptance.by_position == (10, 0)


def test_a_baseline_reports_no_acceptance_rather_than_none_accepted() -> None:
    numbers = {"generated": 1, "first": 1, "preemptions": 0}
    counters = counters_between(parse(METRICS.format(**numbers)), parse(METRICS.format(**numbers)), None)
    assert counters is not None
    assert counters.acceptance is None


def test_counters_of_a_server_that_restarted_are_not_reported() -> None:
    high, low = ({"generated": g, "first": 1, "preemptions": 0} for g in (50, 3))
    counters = counters_between(parse(METRICS.format(**high)), parse(METRICS.format(**low)), None)
    assert counters == EngineCounters(reset=True)
