"""`specbench history` as a user runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parents[1] / name) for name in ("analysis", "history")]
import known_run
from known_folder import add_run, answer, measurements

SCENARIO = "{name: toy, step: {weights_ms: 1}, output: {tokens: 8}}"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs on three days, one of them simulated, the last one faster and unfinished; and a damaged one."""
    folder = tmp_path_factory.mktemp("folder")
    add_run(folder / "monday", 1)
    add_run(folder / "toy", 2, simulated={"scenario": "toy"})
    faster = [known_run.measurement(known_run.NGRAM, accepted=3, replicate=r) for r in (0, 1)]
    plain = [m for m in measurements(batch_sizes=(1,)) if m.cell.speculation.is_baseline]
    add_run(folder / "tuesday", 3, [*plain, *faster], versions={"torch": "3.0"}, compact=False)
    (folder / "bad").mkdir()
    (folder / "bad" / "manifest.json").write_text("[]")
    answer(folder, "FROM runs")
    return folder


def test_a_table_newest_last_with_what_changed(specbench: Any, runs: Path) -> None:
    done = specbench("history", "--batch-size", 1, "--runs", runs)
    assert done.returncode == 0, done.stderr
    title, monday, tuesday = done.stdout.splitlines()
    assert title.startswith(
        "# speedup; chat: reference, demo, 2-core CPU (Example 9000), 8 GiB, no GPU: load, method, "
    )
    assert monday.split("\t")[:4] == ["batch 1", "ngram-g4", "monday", "2030-01-01 12:00"]
    assert tuesday.split("\t")[:4] == ["batch 1", "ngram-g4", "tuesday", "2030-01-03 12:00"]
    figures = [float(line.split("\t")[4].split()[0]) for line in (monday, tuesday)]
    assert figures[0] == 1.669  # as worked out in test_query.py
    assert figures[1] > 2
    assert tuesday.split("\t")[5].startswith("version of specbench: 0.1.0 → none; ")
    for said in (f"left out: {runs / 'bad'}", "1 simulated runs are left out", "tuesday is incomplete: 4 of 8"):
        assert said in done.stderr


def test_json_and_plot(specbench: Any, runs: Path, tmp_path: Path) -> None:
    done = specbench(
        *("history", "--runs", runs, "--method", "ngram", "--gamma", 4, "--workload", "chat", "--simulated"),
        *("--metric", "mean_acceptance_length,speedup", "--plot", "trend.png", "--json"),
    )
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["metrics"] == ["mean_acceptance_length", "speedup"]
    assert len(record["left_out"]) == 1
    one, four = record["series"]
    assert (one["batch_size"], four["batch_size"]) == (1, 4)
    assert [p["run"] for p in one["points"]] == ["monday", "toy", "tuesday"]
    length = one["points"][2]["figures"]["mean_acceptance_length"]
    assert length["low"] <= length["value"] <= length["high"]
    assert length["value"] == pytest.approx(4)
    assert (tmp_path / "trend.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", [("--metric", "speedupp"), ("--gamma", "x"), ("--method", "eagle3")])
def test_bad_input_is_one_line_and_exit_code_1(specbench: Any, runs: Path, option: tuple[str, str]) -> None:
    done = specbench("history", "--runs", runs, *option)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_run_that_has_just_ended_needs_no_analysis(specbench: Any, tmp_path: Path, workload: Path) -> None:
    (tmp_path / "toy.yaml").write_text(SCENARIO)
    sweep = specbench(
        *("sweep", "--backend", "simulated", "--target", "toy", "--scenario", "toy.yaml", "--workload", workload),
        *("--method", "ngram", "--gamma", 2, "--batch-size", 1, "--max-tokens", 8, "--replicates", 1, "--quiet"),
    )
    assert sweep.returncode == 0, sweep.stderr
    done = specbench("history", "--simulated", "--metric", "mean_acceptance_length")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 2
