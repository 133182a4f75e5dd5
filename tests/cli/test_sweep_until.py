"""`specbench sweep --until-ci --baseline-vs-baseline` as a user runs it, on the known-truth server."""

from __future__ import annotations

import json
from pathlib import Path

from specbench.store.run import RunStore

SCENARIO = """
engine: vllm
step: {weights_ms: 3}
prefill: {fixed_ms: 3}
output: {tokens: 12, ends: false}
methods:
  ngram: {acceptance: {alpha: 0.6}}
"""


def test_replicates_are_added_until_the_interval_is_narrow_and_a_resumed_run_adds_none(  # type: ignore[no-untyped-def]
    specbench, workload: Path, tmp_path: Path
) -> None:
    """Four pairs are the fewest whose always-valid interval is bounded at all; ±90 % is then soon reached."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    options = ("--backend", "simulated", "--scenario", "scenario.yaml", "--target", "none", "--workload", workload)
    grid = ("--method", "ngram", "--gamma", 3, "--batch-size", 1, "--max-tokens", 12, "--replicates", 2)
    until = ("--until-ci", "90%", "--max-replicates", 6, "--baseline-vs-baseline")
    result = specbench("sweep", *options, *grid, *until, "--output", "run", "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    cells = {(c["method"], c["again"]): c for c in summary["cells"]}
    assert set(cells) == {("none", False), ("none", True), ("ngram", False)}
    again, ngram = cells["none", True], cells["ngram", False]
    assert 4 <= ngram["replicates"] <= 6
    for cell in (again, ngram):
        assert cell["speedup_ci_basis"] == "always-valid"
        assert cell["speedup_ci_low"] < cell["speedup"] < cell["speedup_ci_high"]
        assert cell["speedup_sd_percent"] > 0
    assert "Noise floor of speed" in summary["verdict"]["text"]
    assert summary["verdict"]["method"] in (None, "ngram")
    before = RunStore.open(tmp_path / "run").measurements()
    assert specbench("sweep", "--resume", "--output", "run", "--quiet").returncode == 0
    assert RunStore.open(tmp_path / "run").measurements() == before
    planned = specbench("power", "--run", "run", "--effect", "10%", "--json")
    assert planned.returncode == 0, planned.stderr
    report = json.loads(planned.stdout)
    assert {row["cell"] for row in report["measured"]} == {"tiny-none-again-b1", "tiny-ngram-g3-b1"}
    assert report["seconds_per_replicate"] > 0


def test_a_dry_run_says_how_far_it_may_go(specbench, workload: Path) -> None:  # type: ignore[no-untyped-def]
    result = specbench("sweep", "--workload", workload, "--until-ci", "3%", "--max-replicates", 8, "--dry-run")
    assert result.returncode == 0, result.stderr
    assert "(--until-ci 3.0%), up to 8 in all: 10 more starts at most" in result.stdout
