"""What bars a comparison, and what is what it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from known_gate import run

from specbench.comparison.fingerprint import changes, fingerprint
from specbench.comparison.from_run import unmeasured
from specbench.comparison.snapshot import Snapshot
from specbench.errors import SpecbenchError
from specbench.gate.refusal import refuse_unlike
from specbench.sweep.config import SweepConfig


def side(path: Path, **options: Any) -> Snapshot:
    return unmeasured(run(path, noise=(), **options))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"hardware": {"kind": "1 × H200"}}, "hardware: 2-core CPU .* → 1 × H200"),
        ({"target": {"name": "demo", "digest": "12" * 32}}, "target: abababab.* → 12121212"),
        ({"workloads": [{"name": "chat", "sha256": "99" * 32}]}, "workload chat: cdcdcd.* → 9999"),
        ({"config": {"max_tokens": 128}}, "--max-tokens: 64 → 128"),
        ({"config": {"batch_size": [1, 64]}}, "largest batch size: 4 → 64"),
        ({"config": {"dtype": "bfloat16"}}, "--dtype: float32 → bfloat16"),
        ({"config": {"engine_arg": ["--enforce-eager"]}}, "--engine-arg"),
        ({"config": {"prefix_caching": True}}, "--prefix-caching: False → True"),
        ({"config": {"backend": "vllm"}}, "backend: reference → vllm"),
    ],
)
def test_another_machine_work_or_option_is_refused_by_name(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    common = {"max_tokens": 64, "dtype": "float32", "engine_arg": [], "prefix_caching": False}
    changed = {**options, "config": {**common, **options.get("config", {})}}
    with pytest.raises(SpecbenchError, match=f"a and b cannot be compared: .*{says}.*specbench baseline save"):
        refuse_unlike(side(tmp_path / "a", config=common), side(tmp_path / "b", **changed))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"versions": {"torch": "3.0"}}, "version of torch: 2.13.0 → 3.0"),
        ({"git": {"commit": "45" * 20}}, "commit: efefefefef… → 4545454545…"),
        ({"drafters": {"eagle3": "77" * 32}}, "drafter eagle3: none → 7777777777…"),
        ({"config": {"container": "vllm:0.33"}}, "container: none → vllm:0.33"),
        ({"environment": {"OMP_NUM_THREADS": "4"}}, "variable OMP_NUM_THREADS: none → 4"),
        ({"simulated": {"sha256": "66" * 32}}, "scenario: none → 6666666666…"),
    ],
)
def test_another_version_drafter_or_variable_is_named(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    before, after = side(tmp_path / "a"), side(tmp_path / "b", **options)
    refuse_unlike(before, after)
    assert says in map(str, changes(before, after))


def test_another_engine_version_is_named(tmp_path: Path) -> None:
    stores = [run(tmp_path / name, noise=()) for name in "ab"]
    for store, version in zip(stores, ("0.31", "0.32"), strict=True):
        store.write_json("launches/none-r0.json", {"engine": "vLLM", "version": version})
    assert [*map(str, changes(*map(unmeasured, stores)))] == ["engine: vLLM 0.31 → vLLM 0.32"]


@pytest.mark.parametrize("name", ["replicates", "gpu_price", "ready_timeout", "method", "gamma", "drafter", "python"])
def test_how_much_is_measured_and_what_is_under_test_bars_nothing(name: str) -> None:
    fields = SweepConfig(workload=(Path("w.jsonl"),)).model_dump(mode="json")
    assert fingerprint({"config": fields}) == fingerprint({"config": {**fields, name: "something else"}})


def test_an_option_that_an_older_baseline_did_not_know_bars_nothing(tmp_path: Path) -> None:
    refuse_unlike(side(tmp_path / "a"), side(tmp_path / "b", config={"kv_cache": None, "tensor_parallel": 1}))


def test_in_one_session_options_may_differ_and_requests_may_not(tmp_path: Path) -> None:
    common = {"max_tokens": 64, "prefix_caching": False}
    a = side(tmp_path / "a", config=common)
    refuse_unlike(a, side(tmp_path / "b", config={**common, "prefix_caching": True}), same_session=True)
    with pytest.raises(SpecbenchError, match=r"--max-tokens: 64 → 32. Give both configurations the same"):
        refuse_unlike(a, side(tmp_path / "c", config={**common, "max_tokens": 32}), same_session=True)
