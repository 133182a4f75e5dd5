"""Every key that a machine may read is explained in docs/columns.md."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from specbench.analysis import marks
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.cell_table import cell_schema
from specbench.store.run import TELEMETRY_COLUMNS
from specbench.telemetry.sample import Sample

DOCUMENT = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")


def documented(heading: str) -> list[str]:
    section = DOCUMENT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


def test_every_column_is_documented_in_order() -> None:
    assert documented("Cells") == [f.name for f in fields(CellSummary)]


def test_every_columns_type_in_parquet_is_documented() -> None:
    section = DOCUMENT.split("## Cells\n")[1].split("\n## ")[0]
    told = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section, flags=re.MULTILINE)
    assert told == [(name, shown(kind)) for name, kind in cell_schema()]


def shown(kind: pa.DataType) -> str:
    """Arrow's name of a type, without the names of a list's or a map's parts."""
    if pa.types.is_list(kind):
        return f"list<{shown(kind.value_type)}>"
    if pa.types.is_map(kind):
        return f"map<string, {shown(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(field.name for field in kind)}>"
    return str(kind)


def test_every_mark_is_documented() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(marks.__file__).parent.glob("*.py"))
    assert set(documented("Marks")) == set(re.findall(r'Mark\(\s*"(\w+)"', source))


def test_every_column_of_telemetry_is_documented_in_order() -> None:
    assert documented("Telemetry") == ["measurement", *(f.name for f in fields(Sample))] == TELEMETRY_COLUMNS.names
