"""Cells as an Arrow table: the columns of cells.csv, with types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pyarrow as pa

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import Mark


def cell_table(cells: Iterable[Mapping[str, Any]]) -> pa.Table:
    """From the cells of `RunSummary.to_json()`."""
    columns = cell_schema()
    return pa.Table.from_pylist([cell_row(cell) for cell in cells], schema=pa.schema(columns))


def cell_row(cell: Mapping[str, Any]) -> dict[str, Any]:
    """A cell as Arrow takes it, which wants maps as lists of pairs; what an older report lacks is null."""
    return {name: _items(cell.get(name)) for name, _ in cell_schema()}


def cell_schema() -> list[tuple[str, pa.DataType]]:
    """Every column with its type."""
    hints = get_type_hints(CellSummary)
    return [(f.name, _arrow(hints[f.name])) for f in fields(CellSummary)]


def _items(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


def _arrow(hint: Any) -> pa.DataType:
    """The Arrow type of a field of `CellSummary`, as `to_json` writes it: mappings have texts for keys."""
    if hint in _TYPES:
        return _TYPES[hint]
    origin = get_origin(hint)
    arguments = [a for a in get_args(hint) if a not in (NoneType, Ellipsis)]
    if origin is Literal:
        return pa.string()
    if origin is tuple:
        return pa.list_(_arrow(arguments[0]))
    if origin is Mapping:
        return pa.map_(pa.string(), _arrow(arguments[1]))
    (only,) = arguments  # a union with None
    return _arrow(only)


_TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    Mark: pa.struct([("code", pa.string()), ("text", pa.string())]),
}
