"""What is refused before anything starts, and what a refusal leaves untouched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.store.run import RunStore
from specbench.sweep.config import SweepConfig
from specbench.sweep.prepare import check, prepare


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "w.jsonl"
    path.write_text('{"id": "a", "prompt": "Once upon a time"}\n')
    return path


def ready(config: SweepConfig, run: Path, *, resume: bool = False) -> Any:
    return prepare(config, run, resume=resume, note=lambda text: None)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"target": "./nowhere"}, "no model directory './nowhere'"),
        ({"method": ("eagle3",), "drafter": {"eagle3": "./nowhere"}}, "no model directory './nowhere'"),
        ({"method": ("eagle3",), "drafter": {"eagle3": "demo-reduced"}}, "no drafter demo-reduced for method eagle3"),
        ({"backend": "vllm", "verification": "coupled"}, "vLLM has no coupled verification"),
        ({"tensor_parallel": 2}, "--tensor-parallel means nothing to the reference backend"),
        (
            {"method": ("medusa",), "drafter": {"medusa": "a/b"}, "backend": "sglang", "device": "cuda"},
            "does not run medusa",
        ),
    ],
)
def test_a_dry_run_refuses_what_the_run_would(workload: Path, settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecbenchError, match=reason):
        check(SweepConfig.model_validate({"workload": (workload,), **settings}), None, resume=False)


def test_an_engine_that_is_not_installed_and_a_hub_id_do_not_stop_a_dry_run(workload: Path) -> None:
    config = {"workload": (workload,), "backend": "vllm", "device": "cuda", "target": "org/model"}
    assert check(SweepConfig.model_validate(config), None, resume=False).backend.name == "vllm"


@pytest.mark.usefixtures("demo_target")
def test_a_resume_that_is_refused_changes_nothing(workload: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = SweepConfig(workload=(workload,), replicates=1)
    store = ready(config, run).store
    before = {name: (run / name).read_text() for name in ("manifest.json", "config.yaml")}
    dearer = config.model_copy(update={"replicates": 4, "gpu_price": 9.0})
    with store.locked(), pytest.raises(SpecbenchError, match="another specbench sweep is measuring"):
        ready(dearer, run, resume=True)
    assert {name: (run / name).read_text() for name in before} == before
    ready(dearer, run, resume=True)
    assert json.loads((run / "manifest.json").read_text())["config"]["gpu_price"] == 9.0


@pytest.mark.usefixtures("demo_target")
def test_a_directory_with_a_run_in_it_is_not_taken_for_a_new_one(workload: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = SweepConfig(workload=(workload,), replicates=1)
    ready(config, run)
    with pytest.raises(SpecbenchError, match="already holds a run"):
        check(config, run, resume=False)
    (run / "manifest.json").unlink()
    (run / "cells" / "old.parquet").write_bytes(b"")
    with pytest.raises(SpecbenchError, match=r"holds measurements whose manifest\.json is gone"):
        ready(config, run)


@pytest.mark.usefixtures("demo_target")
def test_a_resume_with_other_settings_is_refused_without_hashing_a_model(workload: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = SweepConfig(workload=(workload,), replicates=1)
    ready(config, run)
    with pytest.raises(SpecbenchError, match=r"config\.max_tokens \(64 → 13\)"):
        check(config.model_copy(update={"max_tokens": 13}), run, resume=True)
    assert RunStore.open(run).measurements() == []
