"""`specbench query` as a user runs it."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path += [str(Path(__file__).parents[1] / name) for name in ("analysis", "history")]
from known_folder import add_run, answer

SQL = (
    "SELECT run, batch_size, round(speedup, 3) AS speedup, marks FROM cells WHERE method = 'ngram' ORDER BY batch_size"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run that can be read, and one that cannot; both have been looked at before."""
    folder = tmp_path_factory.mktemp("folder")
    add_run(folder / "good")
    (folder / "bad").mkdir()
    (folder / "bad" / "manifest.json").write_text("{")
    answer(folder, "FROM runs")
    return folder


def test_the_same_answer_as_table_json_and_csv(specbench: Any, runs: Path) -> None:
    as_json = specbench("query", SQL, "--runs", runs, "--json")
    assert as_json.returncode == 0, as_json.stderr
    record = json.loads(as_json.stdout)
    assert record["columns"] == ["run", "batch_size", "speedup", "marks"]
    # 41 tokens in 20 steps instead of 40 after the prefill, of 10 and 10.2 ms: √(0.5/0.3 · 0.508/0.304).
    assert record["rows"] == [
        {"run": "good", "batch_size": 1, "speedup": 1.669, "marks": []},
        {"run": "good", "batch_size": 4, "speedup": 1.669, "marks": []},
    ]
    (problem,) = record["left_out"]
    assert "bad" in problem
    assert problem in as_json.stderr

    as_csv = specbench("query", SQL, "--csv", "--runs", runs)
    rows = list(csv.reader(io.StringIO(as_csv.stdout)))
    assert rows == [record["columns"], ["good", "1", "1.669", "[]"], ["good", "4", "1.669", "[]"]]

    table = specbench("query", SQL, "--runs", runs)
    assert table.stdout == "# 2 rows: run, batch_size, speedup, marks\ngood\t1\t1.669\t[]\ngood\t4\t1.669\t[]\n"


@pytest.mark.parametrize("sql", ["SELECT nothing FROM cells", "COPY cells TO 'cells.csv'", "SELECT * FROM 'x.parquet'"])
def test_bad_sql_is_one_line_and_exit_code_1(specbench: Any, runs: Path, tmp_path: Path, sql: str) -> None:
    done = specbench("query", sql, "--runs", runs)
    assert done.returncode == 1
    assert done.stdout == ""
    left_out, error = done.stderr.splitlines()
    assert left_out.startswith("specbench: left out: ")
    assert error.startswith("specbench: ")
    assert not (tmp_path / "cells.csv").exists()


def test_two_formats_at_once_are_a_usage_error(specbench: Any) -> None:
    assert specbench("query", SQL, "--json", "--csv").returncode == 2


def test_no_runs_is_an_error_with_the_way_out(specbench: Any) -> None:
    done = specbench("query", "FROM runs")
    assert done.returncode == 1
    assert done.stderr == "specbench: reports is not a directory. Name the folder that runs are in: --runs DIR.\n"
