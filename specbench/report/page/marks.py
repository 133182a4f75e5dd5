"""Marks by what they say: each once, with all the cells that carry it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import VOIDING


@dataclass(frozen=True, slots=True)
class Marked:
    """is_void: whether the mark makes a cell no evidence;  entries: (cells, what is said of them)"""

    code: str
    is_void: bool
    entries: tuple[tuple[tuple[str, ...], str], ...]


def marked(cells: Sequence[CellSummary]) -> list[Marked]:
    """Those that void a cell first, then in the order of the cells."""
    by_code: dict[str, dict[str, list[str]]] = {}
    for c in cells:
        for mark in c.marks:
            texts = by_code.setdefault(mark.code, {})
            texts.setdefault(mark.text, []).append(f"{c.label}, {c.load_in_words}, {c.workload}")
    found = [
        Marked(code, code in VOIDING, tuple((tuple(named), text) for text, named in texts.items()))
        for code, texts in by_code.items()
    ]
    return sorted(found, key=lambda m: not m.is_void)
