"""The simulated backend: a command like any engine's, nothing fetched, and a label on all that comes of it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from specbench.backends import get_backend
from specbench.backends.base import EngineOptions, Launch
from specbench.errors import SpecbenchError
from specbench.replay.dialect import SGLANG, TENSORRT_LLM, VLLM
from specbench.speculation import METHODS, Speculation
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import make_plan
from specbench.sweep.prepare import check, prepare


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "fast.yaml"
    path.write_text("name: fast\ndescription: nothing like it\nstep: {weights_ms: 1}\n")
    return path


@pytest.fixture
def config(tmp_path: Path, scenario: Path) -> SweepConfig:
    workload = tmp_path / "w.jsonl"
    workload.write_text('{"id": "a", "prompt": "Once upon a time"}\n')
    return SweepConfig.model_validate(
        {
            "workload": [workload],
            "backend": "simulated",
            "scenario": scenario,
            "target": "some/70B-that-is-not-here",
            "method": ["eagle3"],
            "drafter": {"eagle3": "some/head"},
            "device": "cuda",
            "dtype": "bfloat16",
        }
    )


def test_the_command_is_the_known_truth_server_with_the_scenario(scenario: Path) -> None:
    launch = Launch(
        target=Path("any"),
        target_name="any/model",
        speculation=Speculation("eagle3", 3, "head"),
        max_batch_size=16,
        max_model_len=512,
        options=EngineOptions(scenario=scenario, prefix_caching=True, engine_args=("--truth", "t.jsonl")),
    )
    assert get_backend("simulated").command(launch).argv == (
        *(sys.executable, "-m", "specbench.simulated.server"),
        *("--scenario", str(scenario), "--served-model-name", "any/model", "--method", "eagle3", "--gamma", "3"),
        *("--max-batch-size", "16", "--max-model-len", "512", "--port", "{port}", "--die-with-parent"),
        *("--prefix-caching", "--truth", "t.jsonl"),
    )


def test_another_server_s_arguments_are_refused(scenario: Path) -> None:
    for arguments in (("--block-size", "32"), ("--truth",), ("--truth", "t", "--port", "1")):
        options = EngineOptions(scenario=scenario, engine_args=arguments)
        with pytest.raises(SpecbenchError, match="--engine-arg='--truth FILE' and no other; got '--"):
            get_backend("simulated").command(Launch(Path("any"), "any", options=options))


def test_every_method_runs() -> None:
    assert get_backend("simulated").methods == METHODS


@pytest.mark.parametrize(("engine", "dialect"), [("vllm", VLLM), ("sglang", SGLANG), ("tensorrt_llm", TENSORRT_LLM)])
def test_the_scenario_says_which_engine_is_spoken_to(tmp_path: Path, engine: str, dialect: Any) -> None:
    (tmp_path / "s.yaml").write_text(f"engine: {engine}")
    assert get_backend("simulated").dialect(EngineOptions(scenario=tmp_path / "s.yaml")) is dialect


def test_a_sweep_without_a_scenario_or_with_a_broken_one_is_refused_at_once(
    config: SweepConfig, tmp_path: Path
) -> None:
    with pytest.raises(SpecbenchError, match="--scenario FILE"):
        check(config.model_copy(update={"scenario": None}), None, resume=False)
    (tmp_path / "fast.yaml").write_text("stepp: {}")
    with pytest.raises(SpecbenchError, match=r"fast\.yaml: stepp is not a setting"):
        check(config, None, resume=False)
    with pytest.raises(SpecbenchError, match="--scenario means nothing to the reference backend"):
        check(SweepConfig(workload=config.workload, scenario=config.scenario), None, resume=False)


def test_a_target_that_is_nowhere_is_a_name_and_the_manifest_says_simulated(
    config: SweepConfig, tmp_path: Path
) -> None:
    said: list[str] = []
    sweep = prepare(config, tmp_path / "run", resume=False, note=said.append)
    assert said[0].startswith("SIMULATED: no engine runs")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["hardware"]["kind"] == "SIMULATED hardware (scenario fast: nothing like it)"
    assert manifest["simulated"]["scenario"] == "fast"
    assert manifest["target"] == {"name": "some/70B-that-is-not-here"}
    assert len(sweep.plan.launches) == len(make_plan(config).launches)


def test_another_scenario_is_another_run(config: SweepConfig, scenario: Path, tmp_path: Path) -> None:
    prepare(config, tmp_path / "run", resume=False, note=lambda text: None)
    prepare(config, tmp_path / "run", resume=True, note=lambda text: None)
    scenario.write_text(scenario.read_text().replace("weights_ms: 1", "weights_ms: 2"))
    with pytest.raises(SpecbenchError, match=r"simulated\.sha256"):
        prepare(config, tmp_path / "run", resume=True, note=lambda text: None)


async def test_settings_are_read_back_and_a_lower_limit_is_named(simulate: Any) -> None:
    server = await simulate({"max_batch_size": 2}, gamma=3, max_batch_size=8)
    launch = Launch(Path("any"), "any", Speculation("eagle3", 3, "drafter"), max_batch_size=8)
    settings = await get_backend("simulated").read_back(server.url, launch)
    assert settings.engine == "SIMULATED vllm"
    assert settings.differences == ("max_batch_size is 2, asked was 8",)
