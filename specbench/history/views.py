"""The tables that `specbench query` offers, as DuckDB views over the Parquet files of a folder's runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from specbench.history.folder import StoredRun

_OF_RUN = ("run", "created_at", "machine", "simulated", "specbench_version", "engine", "versions", "commit")
"""Columns of `runs` that the other views have as well."""

_MEASUREMENT = {
    "measurement": ("id", "VARCHAR"),
    "launch": ("launch", "VARCHAR"),
    "backend": ("cell.backend", "VARCHAR"),
    "target": ("cell.target", "VARCHAR"),
    "workload": ("cell.workload", "VARCHAR"),
    "method": ("cell.speculation.method", "VARCHAR"),
    "gamma": ("cell.speculation.gamma", "BIGINT"),
    "schedule": ("cell.speculation.schedule", "VARCHAR"),
    "adaptive": ("cell.speculation.adaptive", "VARCHAR"),
    "synthetic": ("cell.speculation.synthetic", "VARCHAR"),
    "tree": ("cell.speculation.tree", "VARCHAR"),
    "cached_requests": ("cell.speculation.cached_requests", "BIGINT"),
    "typical": ("cell.speculation.typical", "BOOLEAN"),
    "as_deployed": ("cell.speculation.as_deployed", "BOOLEAN"),
    "again": ("cell.speculation.again", "BOOLEAN"),
    "drafter": ("cell.speculation.drafter", "VARCHAR"),
    "batch_size": ("cell.batch_size", "BIGINT"),
    "request_rate": ("cell.request_rate", "DOUBLE"),
    "temperature": ("cell.temperature", "DOUBLE"),
    "replicate": ("replicate", "BIGINT"),
    "repeat": ("repeat", "BIGINT"),
    "status": ("status", "VARCHAR"),
    "error": ("error", "VARCHAR"),
    "started_at": ("started_at", "TIMESTAMP"),
    "started": ("started", "DOUBLE"),
    "finished": ("finished", "DOUBLE"),
    "steps": ("counters.acceptance.steps", "BIGINT"),
    "drafted": ("counters.acceptance.drafted", "BIGINT"),
    "accepted": ("counters.acceptance.accepted", "BIGINT"),
    "kv_usage_peak": ("counters.kv_usage_peak", "DOUBLE"),
    "preemptions": ("counters.preemptions", "BIGINT"),
    "client_lag_p99": ("client_lag_p99", "DOUBLE"),
    "client_cpu_percent": ("client_cpu_percent", "DOUBLE"),
    "other_cpu_percent": ("other_cpu_percent", "DOUBLE"),
}
"""Columns of `measurements`: where each stands in the record that the store keeps, and its type."""

_REQUEST = {
    "measurement": "VARCHAR",
    "index": "INTEGER",
    "prompt_id": "VARCHAR",
    "category": "VARCHAR",
    "scheduled": "DOUBLE",
    "sent": "DOUBLE",
    "finished": "DOUBLE",
    "chunk_times": "DOUBLE[]",
    "chunk_tokens": "INTEGER[]",
    "prompt_tokens": "INTEGER",
    "output_tokens": "INTEGER",
    "prompt_token_ids": "INTEGER[]",
    "token_ids": "INTEGER[]",
    "text": "VARCHAR",
    "finish_reason": "VARCHAR",
    "error": "VARCHAR",
    "seed": "BIGINT",
    "follows": "INTEGER",
    "steps": "INTEGER",
    "drafted": "INTEGER",
    "accepted": "INTEGER",
    "per_step_drafted": "SMALLINT[]",
    "per_step_accepted": "SMALLINT[]",
    "per_step_gamma": "SMALLINT[]",
    "by_position": "INTEGER[]",
}
"""Columns of `requests`: those of the store's request tables."""

_RECORD = "CASE WHEN decode(m.key) = 'specbench.measurement' THEN decode(m.value) END"

VIEWS = ("runs", "cells", "measurements", "requests")


def create_runs(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun]) -> None:
    """Makes `runs`, a row per run, and `behind.files`, which says of which run a file is."""
    owned = [(str(file), run.name) for run in runs for file in run.files]
    connection.execute("CREATE SCHEMA behind")
    connection.execute(
        "CREATE TABLE behind.files AS SELECT unnest($files) AS file, unnest($runs) AS run",
        {"files": [file for file, _ in owned], "runs": [run for _, run in owned]},
    )
    connection.execute(
        "CREATE TABLE behind.runs AS SELECT files.run AS run, unnest(s.run) "
        f"FROM {_summaries(runs)} s JOIN behind.files ON s.filename = files.file "
        "WHERE s.file_row_number = 0 ORDER BY s.run.created_at, files.run"
    )
    _create_view(connection, "runs", "FROM behind.runs")


def create_cells(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun]) -> None:
    """Makes `cells`, a row per cell of each run."""
    _create_view(
        connection,
        "cells",
        f"SELECT {_run_columns()}, s.* EXCLUDE (run, filename, file_row_number) "
        f"FROM {_summaries(runs)} s JOIN behind.files ON s.filename = files.file "
        "JOIN runs ON files.run = runs.run WHERE s.method IS NOT NULL",
    )


def create_measurements(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun]) -> None:
    """Makes `measurements`, a row per measurement, from the record that stands in a run's table or in a cell's file."""
    sources = ["SELECT NULL::VARCHAR AS run, NULL::VARCHAR AS record WHERE false"]
    if tables := [run.measurements for run in runs if run.measurements]:
        sources.append(
            f"SELECT files.run, m.record FROM {_parquet(tables)} m JOIN behind.files ON m.filename = files.file "
            "WHERE (files.run, m.measurement) NOT IN (SELECT run, measurement FROM behind.taken_again)"
        )
    if cells := [path for run in runs for path in run.cell_files]:
        sources.append(
            # By CASE, for a WHERE may come after the record is taken apart, and other metadata are no JSON.
            f"SELECT files.run, {_RECORD} AS record FROM parquet_kv_metadata({_paths(cells)}) m "
            f"JOIN behind.files ON m.file_name = files.file WHERE {_RECORD} IS NOT NULL"
        )
    places = ", ".join(_quoted(f"$.{place}") for place, _ in _MEASUREMENT.values())
    values = ", ".join(
        f"TRY_CAST(found[{i}] AS {kind}) AS {name}" for i, (name, (_, kind)) in enumerate(_MEASUREMENT.items(), 1)
    )
    _create_view(
        connection,
        "measurements",
        f"SELECT {_run_columns()}, {values} FROM (SELECT run, json_extract_string(record, [{places}]) AS found FROM "
        f"({' UNION ALL '.join(sources)})) m JOIN runs ON m.run = runs.run",
    )


def create_requests(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun]) -> None:
    """Makes `requests`, a row per request."""
    typed = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in _REQUEST.items())
    sources = [f"SELECT NULL::VARCHAR AS run, {typed} WHERE false"]
    stored = (
        "SELECT files.run, q.* EXCLUDE (filename, file_row_number) FROM {} q "
        "JOIN behind.files ON q.filename = files.file"
    )
    if tables := [run.requests for run in runs if run.requests]:
        taken_again = "(files.run, q.measurement) NOT IN (SELECT run, measurement FROM behind.taken_again)"
        sources.append(f"{stored.format(_parquet(tables))} WHERE {taken_again}")
    if cells := [path for run in runs for path in run.cell_files]:
        sources.append(stored.format(_parquet(cells)))
    _create_view(connection, "requests", " UNION ALL BY NAME ".join(sources))


def create_taken_again(connection: duckdb.DuckDBPyConnection, runs: Iterable[StoredRun]) -> None:
    """Makes `behind.taken_again`: measurements whose cell's file stands for what the run's tables hold of them."""
    again = [(run.name, path.stem) for run in runs if run.measurements for path in run.cell_files]
    connection.execute(
        "CREATE TABLE behind.taken_again AS SELECT unnest($runs)::VARCHAR AS run, unnest($ids)::VARCHAR AS measurement",
        {"runs": [run for run, _ in again], "ids": [measurement for _, measurement in again]},
    )


def _create_view(connection: duckdb.DuckDBPyConnection, name: str, select: str) -> None:
    connection.execute(f"CREATE VIEW {name} AS {select}")


def _run_columns() -> str:
    return ", ".join(f"runs.{name}" for name in _OF_RUN)


def _summaries(runs: Iterable[StoredRun]) -> str:
    """All of one layout: what another version wrote is stale, and was made anew."""
    return f"read_parquet({_paths(run.summary for run in runs)}, filename = true, file_row_number = true)"


def _parquet(paths: Iterable[Path]) -> str:
    """Columns that only some of the files have, because versions of specbench differ, are null in the others."""
    return f"read_parquet({_paths(paths)}, union_by_name = true, filename = true, file_row_number = true)"


def _paths(paths: Iterable[Path]) -> str:
    return f"[{', '.join(_quoted(str(path)) for path in paths)}]"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
