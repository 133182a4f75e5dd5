"""How arms look in the page: the colours, markers and dashes of the PNGs, in the page's own terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbench.analysis.cell_summary import CellSummary
from specbench.report.style import COLOURS, LineStyle, line_styles

_SYMBOLS = {"o": "circle", "s": "square", "^": "triangle", "D": "diamond", "v": "wye", "P": "plus", "X": "star"}
_DASHES = {"-": "none", "--": "6 4", "-.": "7 3 2 3", ":": "2 3"}


def arm_records(cells: Sequence[CellSummary]) -> list[dict[str, Any]]:
    """One object per arm, in the order of the cells: `label`, CSS `colour`, `symbol` and `dash`."""
    labels = {(c.method, c.gamma): c.label for c in cells}
    styles = line_styles(list(labels))
    return [{"label": label, **_look(styles[arm])} for arm, label in labels.items()]


def _look(style: LineStyle) -> dict[str, str]:
    colour = f"var(--arm-{COLOURS.index(style.colour) + 1})" if style.colour in COLOURS else "var(--ink)"
    return {
        "colour": colour,
        "symbol": _SYMBOLS.get(style.marker, "times"),
        "dash": _DASHES.get(style.dash if isinstance(style.dash, str) else "", "5 1 1 1 1 1"),
    }
