"""Cells as CSV: one row per cell, the keys of `--json` as columns; lists, mappings and marks as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from specbench.analysis.cell_summary import CellSummary


def render_csv(report: Mapping[str, Any]) -> str:
    """From `RunSummary.to_json()`; the header is there even if no cell is."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, [f.name for f in fields(CellSummary)], lineterminator="\n")
    writer.writeheader()
    for cell in report["cells"]:
        writer.writerow({key: _plain(value) for key, value in cell.items()})
    return buffer.getvalue()


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
