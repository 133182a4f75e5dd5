"""Rows of a trace, some thousands at a time: a table (CSV), JSON Lines, Parquet, or one number a line."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from specbench.errors import SpecbenchError
from specbench.workloads.readers.entries import open_lines, open_parquet

TABLE_ROWS = 1 << 16
OBJECT_ROWS = 1 << 12
"""Rows in memory at a time; those of JSON may carry hundreds of block ids each."""

BLOCKS = 8
"""Of a list (the ids of a prompt's blocks) only so many of its first values are read."""

FORMS = "Traces are CSV, JSON Lines, Parquet, or one number of seconds a line (docs/workloads.md)"

Kind = Literal["table", "objects", "parquet", "numbers"]


def first_row(path: Path) -> tuple[Kind, frozenset[str]]:
    """What a file is, and the names of the fields of its first row; a table's in small letters.

    Raises SpecbenchError where it is nothing of the kind.
    """
    if path.suffix.lower() == ".parquet":
        with open_parquet(path) as file:
            return "parquet", frozenset(file.schema_arrow.names)
    number, line = _first_line(path)
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SpecbenchError(f"{path}: not UTF-8 at byte {error.start + 1} of line {number}. {FORMS}.") from None
    if text.startswith("{"):
        return "objects", frozenset(_object(path, number, line))
    if not text or _is_number(text):
        return "numbers", frozenset()
    return "table", frozenset(name.strip().strip('"').lower() for name in text.split(","))


def read_rows(path: Path, kind: Kind, wanted: Collection[str]) -> Iterator[pd.DataFrame]:
    """Frames with the wanted fields that there are, indexed by the row's line (1-based; by its number, of Parquet)."""
    match kind:
        case "parquet":
            return _parquet_rows(path, wanted)
        case "objects":
            return _object_rows(path, wanted)
        case "numbers" | "table":
            return _table_rows(path, wanted, header=kind == "table")


def _table_rows(path: Path, wanted: Collection[str], *, header: bool) -> Iterator[pd.DataFrame]:
    begin = _first_line(path)[0] if header else 0
    named: dict[str, Any] = {"header": begin - 1} if header else {"header": None, "names": list(wanted)[:1]}
    try:
        with open_lines(path) as file:
            # Blank lines count, so that a row's line is known; all is text, so that nothing is taken for missing.
            chunks = pd.read_csv(
                file,
                **named,
                dtype=str,
                chunksize=TABLE_ROWS,
                index_col=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=[""],
                encoding="utf-8-sig",
            )
            for chunk in chunks:
                chunk.columns = [name.strip().lower() for name in chunk.columns]
                if twice := sorted(set(chunk.columns[chunk.columns.duplicated()]).intersection(wanted)):
                    raise SpecbenchError(f"{path}: two columns are called {twice[0]!r}. Rename one of them.")
                chunk.index += 1 + begin
                filled = chunk.dropna(how="all")
                yield filled[[name for name in filled.columns if name in wanted]]
    except pd.errors.EmptyDataError:
        return
    except (pd.errors.ParserError, UnicodeDecodeError) as error:
        raise SpecbenchError(f"{path}: no table that can be read ({str(error).strip()}). {FORMS}.") from error


def _object_rows(path: Path, wanted: Collection[str]) -> Iterator[pd.DataFrame]:
    with open_lines(path) as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip())
        while batch := [(n, _wanted(_object(path, n, line), wanted)) for n, line in islice(lines, OBJECT_ROWS)]:
            yield pd.DataFrame([row for _, row in batch], index=[n for n, _ in batch], dtype=object)


def _parquet_rows(path: Path, wanted: Collection[str]) -> Iterator[pd.DataFrame]:
    done = 0
    with open_parquet(path) as file:
        present = [name for name in file.schema_arrow.names if name in wanted]
        for batch in file.iter_batches(OBJECT_ROWS, columns=present):
            rows = [_wanted(row, present) for row in batch.to_pylist()]
            yield pd.DataFrame(rows, index=range(done + 1, done + 1 + len(rows)), dtype=object)
            done += len(rows)


def _first_line(path: Path) -> tuple[int, bytes]:
    """The number of the first line with something in it, and the line; of an empty file the first."""
    with open_lines(path) as file:
        return next(((n, text.strip()) for n, text in enumerate(file, 1) if text.strip()), (1, b""))


def _object(path: Path, number: int, line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SpecbenchError(f"{path}:{number}: no arrival time (no JSON: {error}). {FORMS}.") from None
    if not isinstance(row, dict):
        raise SpecbenchError(f"{path}:{number}: no arrival time (no JSON object). {FORMS}.")
    return row


def _wanted(row: Mapping[str, Any], wanted: Collection[str]) -> dict[str, Any]:
    return {name: _plain(row.get(name)) for name in wanted}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return value[:BLOCKS]
    if isinstance(value, datetime):  # Parquet has dates of its own
        return value.isoformat()
    if isinstance(value, int):
        try:
            return float(value) if abs(value) > 2**53 else value
        except OverflowError:  # a number of four hundred digits
            return None
    return value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
