"""`specbench sweep --until-confident | --budget` as a user runs it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from specbench.store.run import RunStore

SCENARIO = """
engine: vllm
step: {weights_ms: 3, compute_ms_per_token: 0.3}
prefill: {fixed_ms: 3}
output: {tokens: 12, ends: false}
methods:
  ngram: {acceptance: {alpha: 0.7}}
"""


def test_a_simulated_sweep_stops_early_and_marks_what_it_predicts(specbench, workload: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    options = ("--backend", "simulated", "--scenario", "scenario.yaml", "--target", "none", "--workload", workload)
    grid = ("--method", "ngram", "--gamma", "1,3", "--batch-size", "1,2", "--max-tokens", 12, "--replicates", 1)
    result = specbench("sweep", *options, *grid, "--until-confident", "--budget", "80%", "--output", "run", "--json")
    assert result.returncode == 0, result.stderr
    assert "0 of 6 cells. Next: tiny, none, batch 2." in result.stderr
    summary = json.loads(result.stdout)
    told = summary["early_stop"]
    assert told["why"] in ("settled", "budget")
    assert told["text"] in summary["verdict"]["text"]
    predicted = [c for c in summary["cells"] if c["predicted"]]
    assert 1 <= len(predicted) == 6 - told["measured_cells"] <= 5
    assert {c["status"] for c in predicted} == {"predicted"}
    assert all(c["output_tokens_per_s"] > 0 and c["mean_acceptance_length"] is None for c in predicted)
    with (tmp_path / "run" / "cells.csv").open() as file:
        assert sum(row["predicted"] == "True" for row in csv.DictReader(file)) == len(predicted)
    assert (tmp_path / "run" / "report.html").read_text().count('<tr class="predicted">') == len(predicted)
    rest = specbench("sweep", "--resume", "--output", "run", "--budget", "100%", "--quiet", "--json")
    assert rest.returncode == 0, rest.stderr
    summary = json.loads(rest.stdout)
    assert summary["early_stop"] is None
    assert len(summary["cells"]) == 6
    assert not any(c["predicted"] for c in summary["cells"])


@pytest.mark.usefixtures("demo_target")
def test_a_real_sweep_stops_at_its_budget(specbench, workload: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    grid = ("--method", "ngram", "--gamma", 3, "--batch-size", "1,2", "--max-tokens", 12, "--replicates", 1)
    result = specbench("sweep", "--workload", workload, *grid, "--budget", "95%", "--output", "run", "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    cells = summary["cells"]
    assert 1 <= sum(not c["predicted"] for c in cells) < 4 == len(cells)
    assert all(c["output_tokens_per_s"] > 0 for c in cells)
    launches = RunStore.open(tmp_path / "run").launches()
    assert all(record["start_seconds"] > 0 for record in launches.values())


def test_a_dry_run_shows_what_is_certain_and_the_worst_case(specbench, workload: Path) -> None:  # type: ignore[no-untyped-def]
    options = ("--workload", workload, "--gamma", "1,2,4", "--batch-size", "1,2,4", "--replicates", 2, "--dry-run")
    planned = json.loads(specbench("sweep", *options, "--until-confident", "--json").stdout)
    assert [(row["launch"], row["measurements"]) for row in planned["launches"]] == [
        *(("none-r0", 2), ("ngram-g1-r0", 1), ("ngram-g2-r0", 1), ("ngram-g4-r0", 1)),
    ]
    assert planned["worst_case"] == {"launches": 8, "measurements": 24}
    told = " ".join(specbench("sweep", *options, "--budget", "30%").stdout.split())
    assert "That is the worst case, or 30% of that time" in told
    assert "until the best arm at each batch size is known to 95%" in told
