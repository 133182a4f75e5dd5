"""Every key that a machine may read is explained in docs/columns.md."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from specbench.analysis import marks
from specbench.analysis.cell_summary import CellSummary

DOCUMENT = (Path(__file__).parents[2] / "docs" / "columns.md").read_text(encoding="utf-8")


def documented(heading: str) -> list[str]:
    section = DOCUMENT.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", section, flags=re.MULTILINE)


def test_every_column_is_documented_in_order() -> None:
    assert documented("Cells") == [f.name for f in fields(CellSummary)]


def test_every_mark_is_documented() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in Path(marks.__file__).parent.glob("*.py"))
    assert set(documented("Marks")) == set(re.findall(r'Mark\(\s*"(\w+)"', source))
