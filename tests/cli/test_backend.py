"""`specbench backend`: what there is, and the exact line that a sweep would start."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from specbench.backends import get_backend
from specbench.cli.main import app
from specbench.errors import SpecbenchError
from specbench.sweep.config_file import load_config

ROOT = Path(__file__).parents[2]
CONFIGS = sorted([*ROOT.glob("configs/vllm-*.yaml"), *ROOT.glob("configs/tensorrt-llm-*.yaml")])
run = CliRunner().invoke


@pytest.fixture(autouse=True)
def _own_cache(own_cache: Path) -> None: ...


def test_the_list_names_methods_and_the_way_to_get_an_engine() -> None:
    lines = run(app, ["backend", "list"]).stdout.splitlines()
    vllm = next(line.split("\t") for line in lines if line.startswith("vllm"))
    assert "eagle3" in vllm[1].split(", ")
    assert vllm[2] == "no: specbench backend install vllm"
    report = json.loads(run(app, ["backend", "list", "--json"]).stdout)
    assert report["vllm"]["installed"] == []
    assert "ngram" in report["reference"]["methods"]
    untried = {name for name, backend in report.items() if backend["untried"]}
    assert untried == {line.split("\t")[0] for line in lines if line.endswith("contract-tested, not yet run on a GPU")}
    assert untried == {"sglang", "tensorrt-llm"}


def test_a_command_is_printed_for_each_arm_as_a_line_that_a_shell_reads() -> None:
    result = run(app, ["backend", "command", "--backend", "vllm", "--method", "ngram", "--gamma", "2,4"])
    assert result.exit_code == 0
    names, lines = result.stdout.splitlines()[0::3], result.stdout.splitlines()[1::3]
    assert names == ["# none", "# ngram-g2", "# ngram-g4"]
    words = shlex.split(lines[2])
    assert words[0] == "VLLM_NO_USAGE_STATS=1"
    assert json.loads(words[words.index("--speculative-config") + 1])["num_speculative_tokens"] == 4
    # Not installed in this cache: the line is that of the environment to be, and a note says so.
    assert "backend install vllm --cpu" in result.stderr


def test_a_memory_of_earlier_responses_is_an_arm_of_its_own() -> None:
    options = ("--backend", "vllm", "--method", "suffix", "--suffix-cached-requests", "0,32", "--json")
    commands = json.loads(run(app, ["backend", "command", *options]).stdout)
    configs = {
        label: json.loads(made["argv"][made["argv"].index("--speculative-config") + 1])
        for label, made in commands.items()
        if label != "none"
    }
    kept = {label: config["suffix_decoding_max_cached_requests"] for label, config in configs.items()}
    assert kept == {"suffix-g4": 0, "suffix-g4-warm-32": 32}


def test_json_holds_argv_env_and_files() -> None:
    commands = json.loads(run(app, ["backend", "command", "--backend", "reference", "--json"]).stdout)
    assert commands.keys() == {"none", "ngram-g4"}
    assert commands["ngram-g4"].keys() >= {"argv", "env", "files"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            ("--backend", "reference", "--tensor-parallel", "2"),
            "--tensor-parallel means nothing to the reference backend",
        ),
        (("--backend", "reference", "--kv-cache", "2GiB"), "--kv-cache means nothing to the reference backend"),
        (
            ("--backend", "sglang", "--device", "cuda", "--method", "medusa", "--drafter", "medusa=d"),
            "SGLang does not run medusa",
        ),
        (
            ("--backend", "vllm", "--method", "mtp", "--drafter", "mtp=d"),
            "it runs the one that the target brings. Leave --drafter mtp=… out, or use --backend reference",
        ),
        (("--backend", "vllm", "--engine-arg=--speculative-model=x"), "Write --drafter instead"),
        (("--backend", "vllm", "--python", "/no/such/python"), "there is no such interpreter"),
        (("--backend", "vllm", "--kv-cache", "much"), "--kv-cache"),
        (("--backend", "vllm", "--baseline", "none"), "--baseline"),
        (
            (
                "--backend",
                "telepathy",
            ),
            "unknown backend 'telepathy'",
        ),
    ],
)
def test_bad_input_is_one_sentence(options: tuple[str, ...], sentence: str) -> None:
    error = run(app, ["backend", "command", *options]).exception
    assert isinstance(error, SpecbenchError)
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_what_is_said_of_tensorrt_llm() -> None:
    listed = {line.split("\t")[0]: line.split("\t")[1:] for line in run(app, ["backend", "list"]).stdout.splitlines()}
    assert listed["tensorrt-llm"] == [
        "none, ngram, suffix, draft_model, eagle3, mtp",
        "--container IMAGE or --python PATH",
        "contract-tested, not yet run on a GPU",
    ]
    refused = run(app, ["backend", "install", "tensorrt-llm"]).exception
    assert "nvcr.io/nvidia/tensorrt-llm/release" in str(refused)
    asked = ("backend", "command", "--backend", "tensorrt-llm", "--device", "cuda", "--dtype", "bfloat16")
    nowhere = run(app, [*asked, "--engine-version", "1.2.1"]).exception
    assert "--container" in str(nowhere)
    image = ("--container", "nvcr.io/nvidia/tensorrt-llm/release:1.3.0")
    shown = run(app, [*asked, *image, "--engine-arg", "moe_config.backend=TRTLLM --log_level=warning"]).stdout
    assert "--extra_llm_api_options" in shown
    assert "--log_level=warning" in shown
    assert "moe_config:\n  backend: TRTLLM\n" in shown
    assert "decoding_type: NGram" in shown


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.name)
def test_every_configuration_gives_a_plan_and_commands(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    plan = run(app, ["sweep", "--config", str(config), "--dry-run"])
    assert plan.exit_code == 0, plan.exception
    start = get_backend(load_config(config, {}).backend).start_seconds
    assert f"server starts of about {start:.0f} s each" in " ".join(plan.stdout.split())
    commands = json.loads(run(app, ["backend", "command", "--config", str(config), "--json"]).stdout)
    assert len(commands) >= 3
    comment = config.read_text(encoding="utf-8").splitlines()[0]
    assert comment.startswith("# ")
    assert comment.endswith("?")
