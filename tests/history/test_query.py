"""A query sees what the runs hold, under documented columns, and can do nothing but read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import known_run
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_folder import add_run, answer, measurements

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.history.folder import opened
from specbench.history.query import ask
from specbench.history.views import VIEWS
from specbench.store.cell_file import REQUEST_COLUMNS
from specbench.store.run import RunStore

DOCUMENT = (Path(__file__).parents[2] / "docs" / "query.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```sql\n(.*?)```", DOCUMENT, flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on different days, one of them with a failure, marks, categories and degenerate requests."""
    path = tmp_path_factory.mktemp("runs")
    add_run(path / "first", 1)
    taken = [
        *measurements(categories=("code", "prose"), outputs={1: (7,) * 41}),
        known_run.failed(known_run.NGRAM, 1, replicate=2),
        known_run.failed(known_run.NGRAM, 8),
    ]
    add_run(path / "second", 2, taken)
    return path


def documented(view: str) -> list[str]:
    section = DOCUMENT.split(f"\n## {view}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


def test_cells_hold_what_the_report_says(folder: Path) -> None:
    columns = [f.name for f in fields(CellSummary)]
    for run in ("first", "second"):
        expected = summarize(RunStore.open(folder / run)).to_json()["cells"]
        found = answer(folder, f"SELECT {', '.join(columns)} FROM cells WHERE run = '{run}'").records()

        def cell(record: Mapping[str, Any]) -> tuple[str, int]:
            return record["method"], record["batch_size"]

        assert sorted(found, key=cell) == sorted(expected, key=cell)


def test_columns_are_documented_in_their_order(folder: Path) -> None:
    described = {view: [row[0] for row in answer(folder, f"DESCRIBE {view}").rows] for view in VIEWS}
    of_run = described["cells"][:8]
    assert described["runs"] == documented("runs")
    assert described["cells"] == of_run + [f.name for f in fields(CellSummary)]
    assert described["measurements"] == of_run + documented("measurements")
    assert described["requests"] == documented("requests") == ["run", *REQUEST_COLUMNS.names]
    text = DOCUMENT.split("\n## cells\n")[1].split("\n## ")[0]
    assert re.findall(r"`(\w+)`", text)[:8] == of_run
    assert answer(folder, "SHOW TABLES").rows == tuple((view,) for view in sorted(VIEWS))


@pytest.mark.parametrize("sql", EXAMPLES, ids=range(len(EXAMPLES)))
def test_documented_examples_work(folder: Path, sql: str) -> None:
    answered = answer(folder, sql)
    assert answered.columns
    # No run is unfinished here.
    assert bool(answered.rows) == ("measured < planned" not in sql)


@pytest.mark.parametrize("compact", [True, False], ids=["ended", "still going"])
def test_measurements_and_requests_are_those_of_the_store(tmp_path: Path, compact: bool) -> None:
    taken = measurements()
    add_run(tmp_path / "a", taken=taken, compact=compact)
    rows = answer(
        tmp_path,
        "SELECT measurement, launch, method, gamma, as_deployed, batch_size, replicate, status, started_at, finished, "
        "steps, drafted, accepted, client_lag_p99 FROM measurements ORDER BY started_at, measurement",
    ).rows
    assert rows == tuple(
        (
            m.id, m.launch, m.cell.speculation.method, m.cell.speculation.gamma, False, m.cell.batch_size, m.replicate,
            m.status, m.started_at, m.finished, *counters(m.counters and m.counters.acceptance), m.client_lag_p99,
        )
        for m in sorted(taken, key=lambda m: (m.started_at, m.id))
    )  # fmt: skip
    requests = answer(
        tmp_path, 'SELECT measurement, "index", token_ids, chunk_times, text, accepted FROM requests ORDER BY ALL'
    ).rows
    assert requests == tuple(
        (m.id, t.index, list(t.token_ids or ()), list(t.chunk_times), t.text, t.acceptance and t.acceptance.accepted)
        for m in sorted(taken, key=lambda m: m.id)
        for t in m.traces
    )


def counters(counts: Any) -> tuple[int | None, ...]:
    return (counts.steps, counts.drafted, counts.accepted) if counts else (None, None, None)


def test_a_measurement_taken_again_counts_once(tmp_path: Path) -> None:
    """Between two writes of a compaction, or after --resume, a measurement is in a table and in a file of its own."""
    store = add_run(tmp_path / "a")
    again = known_run.measurement(known_run.NGRAM, 1, accepted=1, requests=1, error="again")
    store.write(again)
    assert answer(tmp_path, "SELECT count(*) FROM measurements").rows == ((8,),)
    assert answer(tmp_path, f"SELECT error FROM measurements WHERE measurement = '{again.id}'").rows == (("again",),)
    assert answer(tmp_path, f"SELECT count(*) FROM requests WHERE measurement = '{again.id}'").rows == ((1,),)


def test_a_run_that_is_there_twice_counts_once(tmp_path: Path) -> None:
    add_run(tmp_path / "a")
    copy = tmp_path / "a-copy"
    copy.mkdir()
    for name in ("manifest.json", "measurements.parquet", "requests.parquet"):
        (copy / name).write_bytes((tmp_path / "a" / name).read_bytes())
    (tmp_path / "elsewhere").mkdir()
    RunStore(tmp_path / "elsewhere").write_json("report.json", summarize(RunStore.open(copy)).to_json())
    answered = answer(tmp_path, "SELECT run FROM runs")
    assert answered.rows == (("a",),)
    assert answered.copies == (("a-copy", "a"), ("elsewhere", "a"))
    assert answer(tmp_path, "SELECT count(*) FROM cells").rows == ((4,),)


@pytest.mark.parametrize(
    "sql",
    [
        "COPY cells TO '{there}/x.csv'",
        "COPY cells TO '{run}/requests.parquet'",
        "EXPORT DATABASE '{there}/x'",
        "ATTACH '{there}/x.db'",
        "EXPLAIN ANALYZE COPY cells TO '{there}/x.csv'",
        "CREATE TABLE x AS FROM cells",
        "DELETE FROM runs",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SELECT 1; COPY cells TO '{there}/x.csv'",
        "",
        "SELECT * FROM read_text('{there}/secret')",
        "SELECT * FROM read_csv('{there}/secret')",
        "SELECT * FROM '{run}/manifest.json'",
        "SELECT * FROM read_text('{run}/manifest.json')",
        "SELECT * FROM glob('{there}/*')",
        "SELECT * FROM read_parquet('https://localhost:9/x.parquet')",
        "SELECT * FROM query('COPY cells TO ''{there}/x.csv''')",
        "WITH gone AS (DELETE FROM runs RETURNING run) SELECT * FROM gone",
        "WITH gone AS (COPY cells TO '{there}/x.csv') SELECT * FROM gone",
        "SELECT * FROM enable_logging()",
        "SELECT * FROM folder",
    ],
)
def test_a_query_reads_the_views_and_nothing_else(folder: Path, tmp_path: Path, sql: str) -> None:
    (tmp_path / "secret").write_text("secret")
    run = folder / "first"
    assert answer(folder, "SELECT count(*) FROM cells").rows  # the summaries are there
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    with pytest.raises(SpecbenchError) as refused:
        answer(folder, sql.format(there=tmp_path, run=run))
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELEC 1", 'syntax error at or near "SELEC"'),
        ("SELECT speedupp FROM cells", '"speedupp" not found'),
        ("SELECT * FROM cell", 'Did you mean "cells"'),
        ("SELECT 'a'::INTEGER", "Could not convert string 'a' to INT32"),
    ],
)
def test_an_error_is_one_sentence_with_the_way_out(folder: Path, sql: str, says: str) -> None:
    with pytest.raises(SpecbenchError) as error:
        answer(folder, sql)
    assert says in str(error.value)
    assert str(error.value).endswith("docs/query.md, or DESCRIBE cells.")
    assert "\n" not in str(error.value)


def test_values_are_what_json_can_hold(folder: Path) -> None:
    (row,) = answer(
        folder,
        "SELECT 1 AS a, 2 AS a, DATE '2030-01-01' AS d, TIMESTAMP '2030-01-01 12:00' AS t, 1.5::DECIMAL(4, 1) AS e, "
        "'nan'::DOUBLE AS n, MAP {'k': [1, NULL]} AS m, {'x': 1} AS s, NULL AS z, 'a'::BLOB AS b",
    ).records()
    assert row == {
        "a": 1, "a_2": 2, "d": "2030-01-01", "t": "2030-01-01T12:00:00", "e": 1.5, "n": None, "m": {"k": [1, None]},
        "s": {"x": 1}, "z": None, "b": "b'a'",
    }  # fmt: skip


names = st.text(st.sampled_from("a'\"[]*?é {}%;$"), min_size=1, max_size=8).filter(lambda n: n.strip() == n)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(name=names)
def test_runs_may_be_called_anything(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("named")
    for compact in (True, False):
        add_run(path / name / str(compact), taken=measurements(batch_sizes=(1,)), compact=compact)
    for view in VIEWS:
        assert answer(path, f"SELECT DISTINCT run FROM {view} ORDER BY run").rows == (
            (f"{name}/False",),
            (f"{name}/True",),
        )


def test_only_the_views_that_are_named_are_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What makes a query quick: sixty runs' requests are not opened for a question about cells."""
    made: list[str] = []
    from specbench.history import database

    def noting(name: str, make: Callable[..., None]) -> Callable[..., None]:
        return lambda *arguments: (made.append(name), make(*arguments))[1]

    monkeypatch.setattr(database, "_MAKERS", {n: noting(n, m) for n, m in database._MAKERS.items()})
    with opened(folder, print) as runs:
        ask(runs, "SELECT count(*) FROM Cells")
    assert made == ["cells"]
