"""Panels one above the other, a column of a paper wide, with the machine below and the arms' legend above."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.report.figure_file import WIDTH
from specbench.report.style import INK, LineStyle, line_styles

Styles = Mapping[tuple[str, int], LineStyle]

_FOOT_LETTERS = 74
_LEGEND_LINE = 0.16
_LEGEND_COLUMNS = 3


def panels(summary: RunSummary, heights: Sequence[float], *, legend: int = 0) -> tuple[Figure, list[Any]]:
    """A figure of panels of these heights, in inches. legend: entries that it will have"""
    # A plot that has left its report must still say where it was measured.
    foot = textwrap.fill(f"{summary.run} · {summary.machine}", _FOOT_LETTERS)
    lines = -(-legend // _LEGEND_COLUMNS)
    height = sum(heights) + 0.1 * (foot.count("\n") + 1) + _LEGEND_LINE * lines
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots(len(heights), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    figure.supxlabel(foot, fontsize=5.5, color=INK, alpha=0.8)
    return figure, list(axes[:, 0])


def add_legend(figure: Figure, axes: Iterable[Any]) -> None:
    """Of all panels together, each label once."""
    handles = {label: h for each in axes for h, label in zip(*each.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside upper left", ncols=_LEGEND_COLUMNS, columnspacing=1.2)


def styles_of(cells: Iterable[CellSummary]) -> Styles:
    return line_styles(unique((c.method, c.gamma) for c in cells))


def unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
