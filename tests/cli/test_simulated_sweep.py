"""`specbench sweep --backend simulated`: a whole sweep on hardware that nobody has, labelled everywhere."""

from __future__ import annotations

import csv
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from specbench.store.measurement import Measurement
from specbench.store.run import RunStore

SCENARIO = """
name: toy-70b
description: a toy
drafting: {acceptance: {alpha: 0.8}, spread: 0.1}
step: {weights_ms: 4, per_sequence_ms: 0.2}
prefill: {fixed_ms: 8}
output: {tokens: 30, sigma: 0.4}
"""
SWEEP = (
    *("sweep", "--backend", "simulated", "--target", "meta-llama/Llama-3.3-70B-Instruct", "--method", "eagle3"),
    *("--drafter", "eagle3=some/head", "--gamma", 3, "--batch-size", "1,2", "--max-tokens", 40, "--replicates", 1),
)


@pytest.fixture
def simulated(tmp_path: Path, workload: Path) -> tuple[object, ...]:
    """Arguments of a small simulated sweep; its scenario is scenario.yaml in the test's directory."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO)
    return (*SWEEP, "--workload", workload, "--scenario", "scenario.yaml", "--output", "run")


def test_everything_that_it_prints_and_writes_says_simulated(
    specbench: Any, simulated: tuple[object, ...], tmp_path: Path
) -> None:
    done = specbench(*simulated, "--json")
    assert done.returncode == 0, done.stderr
    assert "SIMULATED: no engine runs" in done.stderr
    summary = json.loads(done.stdout)
    assert summary["simulated"] is True
    assert summary["machine"] == "SIMULATED hardware (scenario toy-70b: a toy)"
    assert "SIMULATED" in summary["verdict"]["text"]
    assert {cell["backend"] for cell in summary["cells"]} == {"simulated"}
    for cell in summary["cells"]:
        assert cell["status"] == "ok"
        assert cell["memory_bytes_peak"] is None  # that of the simulation is nobody's figure
        if cell["method"] == "eagle3":
            assert cell["equivalence"] == "EXACT"
            assert 1.5 < cell["mean_acceptance_length"] < 4
    shown = specbench("report", "run").stdout
    assert "SIMULATED: " in shown
    run = tmp_path / "run"
    assert (run / "report.md").read_text().startswith("# SIMULATED: ")
    page = (run / "report.html").read_text()
    assert "<title>SIMULATED: " in page
    figures = page.split("<figure ")[1:]
    assert figures
    assert all("SIMULATED hardware" in figure.split("</figure>")[0] for figure in figures)
    with (run / "cells.csv").open() as rows:
        assert {row["backend"] for row in csv.DictReader(rows)} == {"simulated"}
    tables = pq.read_table(run / "measurements.parquet", columns=["backend"])
    assert set(tables["backend"].to_pylist()) == {"simulated"}


def test_what_takes_figures_from_a_simulated_run_says_so(
    specbench: Any, simulated: tuple[object, ...], tmp_path: Path
) -> None:
    plan = (*simulated, "--replicates", 2, "--dry-run")
    assert "SIMULATED: Nothing was started" in specbench(*plan).stdout
    assert json.loads(specbench(*plan, "--json").stdout)["simulated"] is True
    done = specbench(*simulated, "--method", "ngram,eagle3", "--replicates", 2, "--quiet")
    assert done.returncode == 0, done.stderr
    (tmp_path / "log.jsonl").write_text(json.dumps({"prompt": "a b a b", "response": "a b a b a"}) + "\n")
    for command in (
        ("power", "--run", "run"),
        ("profile", "--logs", "run", "--method", "ngram"),
        ("profile", "--logs", "log.jsonl", "--run", "run", "--method", "ngram"),
    ):
        shown = specbench(*command)
        assert shown.returncode == 0, shown.stderr
        assert "# SIMULATED: " in shown.stdout
        assert json.loads(specbench(*command, "--json").stdout)["simulated"] is True
    compared = specbench("compare", "run", "run", "--across-backends")
    assert compared.returncode == 1
    assert "give two runs in which engines ran" in compared.stderr


def result(measurement: Measurement) -> tuple[object, ...]:
    """Everything in a measurement that is not a time, a load or a log."""
    traces = [
        (t.index, t.prompt_id, t.seed, t.prompt_token_ids, t.token_ids, t.text, t.finish_reason, t.acceptance)
        for t in measurement.traces
    ]
    return measurement.id, measurement.cell, measurement.status, traces, measurement.counters


def test_killed_and_resumed_gives_the_same_result_set(
    argv: Any, specbench: Any, simulated: tuple[object, ...], tmp_path: Path
) -> None:
    short = (*simulated, "--batch-size", 1, "--quiet")
    running = subprocess.Popen(argv(*short), cwd=tmp_path)
    deadline = time.monotonic() + 120
    while not any((tmp_path / "run" / "cells").glob("[!.]*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.kill()
    running.wait()
    specbench("doctor", "--clean")
    assert len(RunStore.open(tmp_path / "run").measurements()) < 2
    resumed = specbench("sweep", "--resume", "--output", "run", "--quiet")
    assert resumed.returncode == 0, resumed.stderr
    whole = specbench(*short, "--output", "whole")
    assert whole.returncode == 0, whole.stderr
    first, second = (
        sorted(map(result, RunStore.open(tmp_path / name).measurements()), key=lambda r: str(r[0]))
        for name in ("run", "whole")
    )
    assert first == second


def test_a_crash_is_one_failed_cell_with_a_sentence(
    specbench: Any, simulated: tuple[object, ...], tmp_path: Path
) -> None:
    fault = "faults: [{kind: crash, request: 3, token: 4}]\n"  # once in each start, so in the first cell of each
    (tmp_path / "scenario.yaml").write_text(SCENARIO + fault)
    done = specbench(*simulated, "--batch-size", 1, "--json")
    assert done.returncode == 5, done.stderr
    failures = json.loads(done.stdout)["failures"]
    assert len(failures) == 2
    assert all("the server ended in mid-measurement with exit code 70" in f["error"] for f in failures)
    assert all("Simulated crash" in f["log_tail"] for f in failures)
