"""A connection that can read the runs of a folder, and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import duckdb

from specbench.errors import SpecbenchError
from specbench.history import views
from specbench.history.folder import Folder, StoredRun

_MAKERS = {"cells": views.create_cells, "measurements": views.create_measurements, "requests": views.create_requests}


@contextmanager
def connected(folder: Folder, wanted: Collection[str] = views.VIEWS) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with the views that are wanted (of `views.VIEWS`; `runs` is always there).

    Once they are made it may read the files under them, one by one, and no other: no file to write, no network, no
    extension to load. A statement that changes the database changes memory only. Raises SpecbenchError where a file
    cannot be read.
    """
    runs, connection = list(folder.runs), duckdb.connect()
    try:
        views.create_runs(connection, runs)
        runs = _without_copies(connection, runs)
        views.create_taken_again(connection, runs)
        for name in wanted:
            if name in _MAKERS:
                _MAKERS[name](connection, runs)
        _close_off(connection, runs)
        yield connection
    except duckdb.Error as error:
        _refuse_damaged(runs)
        raise SpecbenchError(
            f"{folder.path} changed while it was read ({str(error).splitlines()[0]}). Ask again."
        ) from error
    finally:
        connection.close()


def copies(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    """Runs left out because another stands for them, by name: a copy, or a report beside the run it is of."""
    return connection.execute("SELECT run, stands FROM behind.copies ORDER BY run").fetchall()


def _without_copies(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun]) -> list[StoredRun]:
    connection.execute(
        "CREATE TABLE behind.copies AS SELECT run, stands FROM (SELECT run, first_value(run) OVER (PARTITION BY "
        "run_id, created_at, fingerprint ORDER BY kept DESC, measured DESC, run <> run_id, run) AS stands FROM runs "
        "WHERE fingerprint IS NOT NULL) WHERE run <> stands"
    )
    connection.execute("DELETE FROM behind.runs WHERE run IN (SELECT run FROM behind.copies)")
    left_out = {run for run, _ in copies(connection)}
    return [run for run in runs if run.name not in left_out]


def _close_off(connection: duckdb.DuckDBPyConnection, runs: Sequence[StoredRun]) -> None:
    readable = [str(file) for run in runs for file in run.files]
    connection.execute("SET allowed_paths = $readable", {"readable": readable})
    connection.execute("SET python_enable_replacements = false")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _refuse_damaged(runs: Sequence[StoredRun]) -> None:
    """Raises SpecbenchError naming the first file that is there and is no Parquet file."""
    with duckdb.connect() as connection:
        for file in (file for run in runs for file in run.files if file.exists()):
            try:
                connection.execute("SELECT count(*) FROM parquet_file_metadata($file)", {"file": str(file)})
            except duckdb.Error as error:
                raise SpecbenchError(
                    f"{file}: damaged, it cannot be read as Parquet. Restore it, or move its run out of the folder; a "
                    "summary-*.parquet can be deleted, it is made anew."
                ) from error
