"""SGLang's adapter without SGLang: the command of every method, and what is refused before a start."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from specbench.backends.base import Command, Container, EngineOptions, Launch
from specbench.backends.explain import explain
from specbench.backends.lossy import lossy_command
from specbench.backends.sglang import SglangBackend, graph_ladder
from specbench.cli.main import app
from specbench.errors import SpecbenchError, UnsupportedSpeculation
from specbench.schedule import Schedule
from specbench.speculation import DRAFTERLESS, METHODS, Speculation

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(ROOT.glob("configs/sglang-*.yaml"))
OPTIONS = EngineOptions(python=Path("/engines/sglang/bin/python"))
LAUNCH = Launch(
    target=Path("/models/target"),
    target_name="demo",
    max_batch_size=12,
    dtype="bfloat16",
    device="cuda",
    options=OPTIONS,
)
RUN = tuple(method for method in SglangBackend.methods if method != "none")


def command(speculation: Speculation | None = None, **changes: object) -> Command:
    changed = replace(LAUNCH, **changes)
    return SglangBackend().command(replace(changed, speculation=speculation) if speculation else changed)


def arm(method: str, gamma: int = 4, schedule: str | None = None) -> Speculation:
    return Speculation(method, gamma, None if method in DRAFTERLESS else "/models/drafter", schedule=schedule)


def value(argv: tuple[str, ...], flag: str) -> str:
    return argv[argv.index(flag) + 1]


def with_arguments(*arguments: str) -> EngineOptions:
    return replace(OPTIONS, engine_args=arguments)


def test_the_command_of_the_baseline() -> None:
    made = command()
    assert made.argv == (
        *("/engines/sglang/bin/sglang", "serve", "--model-path", "/models/target", "--served-model-name", "demo"),
        *("--host", "127.0.0.1", "--port", "{port}"),
        *("--device", "cuda", "--dtype", "bfloat16", "--context-length", "2048", "--max-running-requests", "12"),
        *("--mem-fraction-static", "0.8"),
        *("--cuda-graph-bs-decode", "1", "2", "3", "4", "5", "6", "7", "8", "10", "12", "--disable-radix-cache"),
        *("--enable-metrics", "--sampling-defaults", "openai"),
    )
    assert made.env == {"HF_HUB_OFFLINE": "1"}
    assert made.ready_path == "/ready"


@pytest.mark.parametrize(
    ("method", "flags"),
    [
        ("ngram", "NGRAM {chain} --speculative-ngram-max-bfs-breadth 1"),
        ("draft_model", "STANDALONE --speculative-draft-model-path /models/drafter {chain}"),
        ("eagle3", "EAGLE3 --speculative-draft-model-path /models/drafter {chain}"),
        ("eagle", "EAGLE --speculative-draft-model-path /models/drafter {chain}"),
        ("mtp", "NEXTN {chain}"),
    ],
)
def test_the_flags_of_every_method(method: str, flags: str) -> None:
    chain = "--speculative-num-steps 4 --speculative-eagle-topk 1 --speculative-num-draft-tokens 5"
    argv = " ".join(command(arm(method)).argv)
    assert f"--speculative-algorithm {flags.format(chain=chain)} --enable-metrics" in argv
    assert set(RUN) == {"ngram", "draft_model", "eagle3", "eagle", "mtp"}


@given(st.sampled_from(RUN), st.integers(1, 16), st.integers(1, 300), st.booleans())
def test_arms_differ_in_the_speculation_alone(method: str, gamma: int, largest: int, prefix_caching: bool) -> None:
    shared = {"max_batch_size": largest, "options": replace(OPTIONS, prefix_caching=prefix_caching)}
    argv, baseline = (command(speculation, **shared).argv for speculation in (arm(method, gamma), None))
    begin, end = argv.index("--speculative-algorithm"), argv.index("--enable-metrics")
    assert (*argv[:begin], *argv[end:]) == baseline


@given(st.integers(1, 5000))
def test_the_ladder_of_graphs_ends_with_the_largest_batch_and_has_no_wide_step(largest: int) -> None:
    ladder = graph_ladder(largest)
    assert ladder == sorted(set(ladder))
    assert (ladder[0], ladder[-1]) == (1, largest)
    # SGLang pads a batch up to the next one: 25 % at most, one sequence where batches are small, one row of 16 beyond.
    assert all(b - a <= max(1, 0.25 * a) for a, b in pairwise(ladder))


def test_as_deployed_leaves_the_engine_its_own_defaults() -> None:
    argv = " ".join(command(matched=False).argv)
    for flag in ("radix-cache", "cuda-graph", "mem-fraction"):
        assert flag not in argv


def test_memory_quantization_parallelism_and_the_gpu_are_set() -> None:
    options = replace(OPTIONS, tensor_parallel=4, quantization="fp8", memory_fraction=0.9)
    argv = command(device="cuda:2", options=options).argv
    assert value(argv, "--tp-size") == "4"
    assert value(argv, "--quantization") == "fp8"
    assert value(argv, "--mem-fraction-static") == "0.9"
    assert value(argv, "--base-gpu-id") == "2"


def test_a_schedule_is_an_adaptive_configuration_with_one_candidate_each() -> None:
    made = command(Speculation.scheduled("eagle3", Schedule.parse("1=4+5=2+9=0"), "/models/drafter"))
    assert value(made.argv, "--speculative-adaptive-config") == "{files}/sglang-schedule.json"
    assert json.loads(made.files["sglang-schedule.json"]) == {
        "1": {"candidate_steps": [4]},
        "5": {"candidate_steps": [2]},
        "9": {"candidate_steps": [0]},
    }
    with pytest.raises(UnsupportedSpeculation, match="keeps one gamma for all batch sizes with ngram: --gamma 4"):
        SglangBackend().check(arm("ngram", schedule="1=4+5=2"))


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"none", *RUN}))
def test_methods_that_sglang_has_not_are_refused_with_the_nearest(method: str) -> None:
    with pytest.raises(UnsupportedSpeculation, match=f"does not run {method}.* nearest: "):
        SglangBackend().check(arm(method))


def test_eagle3_without_a_head_never_reaches_sglang_which_would_take_it_and_crash() -> None:
    with pytest.raises(SpecbenchError, match="eagle3 needs a drafter"):
        Speculation("eagle3", 4)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--cuda-graph-max-bs=8",), "two flags begin so by now"),
        (("--cuda-graph-bs", "8"), "two flags begin so by now"),
        (("--speculative-ngram-max-match-window-size=4",), "Use --speculative-ngram-max-trie-depth"),
        (("--max-running-requests=4",), "sets this itself. Use --batch-size"),
        (("--max-running=4",), "sets this itself. Use --batch-size"),
        (("--tp", "4"), "sets this itself. Use --tensor-parallel"),
        (("--tp=4",), "sets this itself. Use --tensor-parallel"),
        (("--model", "x"), "Use --target"),
        (("--speculative-num-steps", "3"), "Use --gamma"),
        (("--speculative-adaptive",), "Use --gamma schedule:"),
    ],
)
def test_engine_arguments_that_specbench_speaks_itself_are_refused(arguments: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        command(options=with_arguments(*arguments))


def test_what_sglang_takes_and_then_ends_on_is_refused() -> None:
    sampled = with_arguments("--speculative-use-rejection-sampling")
    assert command(arm("eagle3"), options=sampled)
    for method in ("draft_model", "ngram"):
        with pytest.raises(SpecbenchError, match="works with eagle3, eagle and mtp alone"):
            command(arm(method), options=sampled)
    both = with_arguments("--speculative-use-rejection-sampling", "--speculative-accept-threshold-acc=0.9")
    with pytest.raises(SpecbenchError, match="ignores thresholds, and SGLang refuses it"):
        command(arm("eagle3"), options=both)
    with pytest.raises(SpecbenchError, match="drafts a tree"):
        command(arm("ngram"), options=with_arguments("--speculative-ngram-max-bfs-breadth", "4", "--page-size", "16"))
    assert command(arm("ngram"), options=with_arguments("--page-size", "16"))


@pytest.mark.parametrize("kind", ["single", "acc"])
def test_a_relaxed_threshold_is_lossy(kind: str) -> None:
    made = command(arm("eagle3"), options=with_arguments(f"--speculative-accept-threshold-{kind}", "0.8"))
    assert "drafts are accepted that the target would refuse" in lossy_command(made, 0.0)[0]
    assert not lossy_command(command(arm("eagle3")), 0.0)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"verification": "coupled"}, "SGLang has no coupled verification"),
        ({"device": "cpu"}, "--device cuda"),
        ({"logprobs": "processed"}, "SGLang gives no processed log-probabilities"),
        ({"options": EngineOptions()}, "--python PATH, or --container IMAGE"),
    ],
)
def test_launches_that_cannot_be_are_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        command(**changes)


def test_in_a_container_models_are_mounted_read_only_and_the_schedule_is_seen() -> None:
    scheduled = Speculation.scheduled("eagle3", Schedule.parse("1=4+5=2"), "/models/drafter")
    made = command(scheduled, options=EngineOptions(container=Container("lmsysorg/sglang:v0.5.23")))
    mounted = [made.argv[i + 1] for i, word in enumerate(made.argv) if word == "--volume"]
    assert mounted == [f"{path}:{path}:ro" for path in ("/models/target", "/models/drafter", "{files}")]
    inside = made.argv[made.argv.index("--entrypoint") :]
    assert inside[:4] == ("--entrypoint", "sglang", "lmsysorg/sglang:v0.5.23", "serve")
    assert (value(inside, "--host"), value(inside, "--port")) == ("0.0.0.0", "8000")
    assert made.ready_path == "/ready"
    assert made.files.keys() == {"sglang-schedule.json"}


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.05. Raise "
            "--mem-fraction-static above 0.092 or use a smaller model.",
            "The weights leave no memory for a KV cache: raise --memory-fraction",
        ),
        (
            "sglang serve: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode, …",
            "Several flags of this version of the engine begin with --cuda-graph-max-bs: write the one that is meant",
        ),
        ("ImportError: libcuda.so.1: cannot open shared object file", "The engine sees no GPU"),
        ("RuntimeError: No accelerator (CUDA, XPU, HPU, NPU, MUSA, MPS) or platform plugin", "The engine sees no GPU"),
        ("ValueError: Unknown speculative algorithm name: LOOKAHEAD", "has no speculative algorithm LOOKAHEAD"),
    ],
)
def test_known_causes_of_a_failed_start(log: str, sentence: str) -> None:
    assert sentence in (explain(log) or "")


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.name)
def test_every_sglang_configuration_gives_a_plan_and_commands(
    config: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    run = CliRunner().invoke
    plan = run(app, ["sweep", "--config", str(config), "--dry-run"])
    assert plan.exit_code == 0, plan.exception
    commands = json.loads(run(app, ["backend", "command", "--config", str(config), "--json"]).stdout)
    assert len(commands) >= 4
    assert all(made["argv"][1] == "serve" for made in commands.values())
    text = config.read_text(encoding="utf-8")
    assert text.splitlines()[0].endswith("?")
    assert "Contract-tested, not yet run on a GPU." in text
