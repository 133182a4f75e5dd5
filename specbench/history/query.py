"""One SQL query over the runs of a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import duckdb

from specbench.analysis.json_values import to_json_value
from specbench.errors import SpecbenchError
from specbench.history import database
from specbench.history.folder import Folder
from specbench.history.views import VIEWS


@dataclass(frozen=True, slots=True)
class Answer:
    """columns: names, each once;  rows: values that JSON can hold
    copies: runs left out because another run stands for them
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    copies: tuple[tuple[str, str], ...]

    def records(self) -> Iterator[Mapping[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)


def ask(folder: Folder, sql: str) -> Answer:
    """The answer to one SELECT. Raises SpecbenchError, with DuckDB's reason, where it is none or cannot be answered."""
    named = [view for view in VIEWS if re.search(rf"\b{view}\b", sql, re.IGNORECASE)]
    with database.connected(folder, named or VIEWS) as connection:
        try:
            _refuse_all_but_one_select(connection, sql)
            cursor = connection.execute(sql)
            columns = _distinct([column[0] for column in cursor.description or ()])
            rows = tuple(tuple(map(_plain, row)) for row in cursor.fetchall())
        except duckdb.Error as error:
            raise SpecbenchError(_sentence(error)) from error
        return Answer(columns, rows, tuple(database.copies(connection)))


def _refuse_all_but_one_select(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise SpecbenchError(f"a query is one SELECT; got {len(statements)} statements.")
    if statements[0].type != duckdb.StatementType.SELECT:
        raise SpecbenchError(
            f"a query is one SELECT (or WITH, FROM, DESCRIBE, SUMMARIZE): runs are read, not changed; got a statement "
            f"of the kind {statements[0].type.name}."
        )


def _sentence(error: duckdb.Error) -> str:
    """DuckDB's reason and its suggestion, without the drawing of where it is."""
    lines = str(error).partition("\nLINE ")[0].split("\n")
    reason = " ".join(line.strip() for line in lines if line.strip())
    stop = "" if reason.endswith((".", "?", "!")) else "."
    return f"{reason}{stop} Views and columns: docs/query.md, or DESCRIBE cells."


def _distinct(names: list[str]) -> tuple[str, ...]:
    """`a, a` as `a, a_2`."""
    found: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate in found:
            number += 1
            candidate = f"{name}_{number}"
        found.append(candidate)
    return tuple(found)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, bool | int | float | str) or value is None:
        return to_json_value(value)
    return str(value)
