"""Manifests: what a continued run may not change, and what never gets into one."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.sweep import manifest as manifests
from specbench.sweep.config import SweepConfig
from specbench.sweep.manifest import check_same_identity, describe_hardware, make_manifest
from specbench.sweep.plan import make_plan
from specbench.telemetry.inventory import Gpu
from specbench.workloads.load import load_workload


@pytest.fixture
def manifest(tmp_path: Path, own_cache: Path):  # type: ignore[no-untyped-def]
    workload = tmp_path / "w.jsonl"
    workload.write_text('{"prompt": "x"}\n')
    target = tmp_path / "target"
    target.mkdir()
    (target / "config.json").write_text("{}")

    def make(**changes: object) -> dict[str, object]:
        config = SweepConfig(workload=(workload,), **changes)
        return make_manifest(config, make_plan(config), target, {}, [load_workload(workload)], "run")

    return make


@pytest.mark.parametrize(
    "change", [{"max_tokens": 8}, {"gamma": (2,)}, {"temperature": 0.5}, {"batch_size": (1, 8)}, {"dtype": "bfloat16"}]
)
def test_what_changes_a_measurement_cannot_be_resumed_and_is_named(manifest, change: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SpecbenchError, match=f"config.{next(iter(change))} "):
        check_same_identity(manifest(), manifest(**change), Path("run"))


@pytest.mark.parametrize(
    "change", [{"gpu_price": 3.0}, {"replicates": 5}, {"repeats": 2}, {"until_ci": 0.03}, {"ready_timeout": 9.0}]
)
def test_prices_and_more_measurements_can_be_added_later(manifest, change: dict[str, object]) -> None:  # type: ignore[no-untyped-def]
    check_same_identity(manifest(), manifest(**change), Path("run"))


def test_variables_that_engines_listen_to_are_part_of_it_but_never_a_secret(
    manifest,  # type: ignore[no-untyped-def]
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = manifest()
    monkeypatch.setenv("VLLM_API_KEY", "sk-do-not-print")
    check_same_identity(before, manifest(), Path("run"))
    assert "sk-do-not-print" not in str(manifest())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(SpecbenchError, match=r"environment\.CUDA_VISIBLE_DEVICES"):
        check_same_identity(before, manifest(), Path("run"))


def test_an_edited_workload_cannot_be_resumed(manifest, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    before = manifest()
    (tmp_path / "w.jsonl").write_text('{"prompt": "y"}\n')
    with pytest.raises(SpecbenchError, match="workloads"):
        check_same_identity(before, manifest(), Path("run"))


@pytest.mark.parametrize(
    ("device", "count", "visible", "kind", "indices"),
    [
        ("cpu", 1, "", None, []),
        ("cuda", 1, "", "1 × H100", [0]),
        ("cuda:2", 1, "", "1 × L40S", [2]),
        ("cuda", 3, "", "2 × H100 + 1 × L40S", [0, 1, 2]),
        ("cuda", 1, "3,1", "1 × L40S", [3]),
        ("cuda:1", 1, "3, 1", "1 × H100", [1]),
        ("cuda", 2, "GPU-8f3a,GPU-11bc", "2 × H100 + 2 × L40S", [0, 1, 2, 3]),
        (None, 1, "", "2 × H100 + 2 × L40S", [0, 1, 2, 3]),
    ],
)
def test_of_the_machines_gpus_those_that_are_used_are_named(
    monkeypatch: pytest.MonkeyPatch, device: str | None, count: int, visible: str, kind: str | None, indices: list[int]
) -> None:
    gpus = [Gpu(index, name, 80 << 30, "580") for index, name in enumerate(("H100", "H100", "L40S", "L40S"))]
    monkeypatch.setattr(manifests, "list_gpus", lambda: gpus)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = describe_hardware(device, count)
    before, _, after = found["kind"].partition(" CPU (")
    assert before.rpartition(", ")[0] == (kind or "")
    assert after.endswith(", no GPU") is (device == "cpu")
    assert [gpu["index"] for gpu in found["gpus"]] == indices
