"""The plot of `specbench compare`: every change with its interval."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from specbench.comparison import wording
from specbench.comparison.result import Comparison, Effect
from specbench.errors import SpecbenchError
from specbench.report.figure_file import WIDTH, save
from specbench.report.style import COLOURS, INK, MARKERS, RC

_ROW, _HEAD, _FOOT = 0.155, 0.42, 0.32
_MOST_ROWS = 60
_Panel = tuple[str, dict[str, list[Effect]]]
"""A metric, and by label the effects that stand in one row."""

_WIDEST = np.log(4.0)
"""Intervals that reach beyond a factor of four end in an arrow: others must stay readable."""


def write_forest(path: Path, comparison: Comparison) -> None:
    """PNG, SVG or PDF, by the file's ending. Raises SpecbenchError for another, and where there is nothing to draw."""
    save(draw_forest(comparison), path)


def draw_forest(comparison: Comparison) -> Figure:
    """A panel per metric, a row per cell, a marker per run. Filled: a difference was found over all figures at once.

    Of more than 60 rows those stand there that change most, what was found before what was not.
    """
    panels = [(metric, rows) for metric in comparison.metrics if (rows := _rows(comparison, metric))]
    if not panels:
        raise SpecbenchError("there is nothing to plot: no figure has a change with an interval.")
    panels, left_out = _cut(panels)
    row = _ROW * (1 + 0.3 * (len(comparison.against) - 1))
    heights = [row * len(rows) + _HEAD for _, rows in panels]
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, sum(heights) + _FOOT), layout="constrained")
        axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for panel, (metric, labelled) in zip(axes, panels, strict=True):
            _panel(panel, metric, labelled, comparison)
        axes[-1].set_xlabel("change against A")
        _legend(figure, comparison, left_out)
    return figure


def _rows(comparison: Comparison, metric: str) -> dict[str, list[Effect]]:
    """Effects with an interval, by the row that they stand in."""
    found: dict[str, list[Effect]] = {}
    for effect in comparison.effects():
        if effect.metric == metric and effect.low is not None:
            found.setdefault(f"{wording.cell(effect)}, {effect.cell.load}", []).append(effect)
    return found


def _cut(panels: Sequence[_Panel]) -> tuple[list[_Panel], int]:
    """The rows that are shown, and how many are not."""
    ranked = sorted(
        ((metric, row, effects) for metric, rows in panels for row, effects in rows.items()),
        key=lambda each: max((_is_found(e), abs(np.log(e.change or 1.0))) for e in each[2]),
        reverse=True,
    )
    kept = {(metric, row) for metric, row, _ in ranked[:_MOST_ROWS]}
    shown = [(metric, {row: e for row, e in rows.items() if (metric, row) in kept}) for metric, rows in panels]
    return [(metric, rows) for metric, rows in shown if rows], len(ranked) - len(kept)


def _panel(axes: Any, metric: str, rows: dict[str, list[Effect]], comparison: Comparison) -> None:
    letters = [run.letter for run in comparison.runs[1:]]
    axes.axvline(0, color=INK, linewidth=0.8)
    ends = [0.0]
    for i, effects in enumerate(rows.values()):
        for effect in effects:
            j = letters.index(effect.run)
            aside = 0.0 if len(letters) == 1 else 0.5 * (j / (len(letters) - 1) - 0.5)
            ends += _draw(axes, effect, i + aside, COLOURS[j % len(COLOURS)], MARKERS[j % len(MARKERS)])
    axes.set_title(metric.replace("_", " "), loc="left")
    axes.set(ylim=(len(rows) - 0.4, -0.6), xlim=_padded(ends))
    axes.set_yticks(range(len(rows)), list(rows))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")
    low, high = np.expm1(axes.get_xlim()) * 100
    percents = [p for p in MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high) if low <= p <= high]
    axes.set_xticks(np.log1p(np.array(percents) / 100), [f"{p:+g}%" if p else "0" for p in percents])


def _draw(axes: Any, effect: Effect, y: float, colour: str, marker: str) -> list[float]:
    """On the log scale; the ends of what was drawn."""
    assert effect.change is not None
    assert effect.low is not None
    assert effect.high is not None
    centre = float(np.clip(np.log(effect.change), -_WIDEST, _WIDEST))
    low, high = (float(np.clip(np.log(end), -_WIDEST, _WIDEST)) for end in (effect.low, effect.high))
    dash = ":" if effect.basis == "within one launch" else "-"
    axes.plot([low, high], [y, y], color=colour, linewidth=1.1, linestyle=dash, zorder=2)
    for end, bound, arrow in ((low, effect.low, "<"), (high, effect.high, ">")):
        if abs(np.log(bound)) > _WIDEST:
            axes.plot([end], [y], color=colour, marker=arrow, markersize=3, zorder=2)
    face = colour if _is_found(effect) else "white"
    axes.plot([centre], [y], color=colour, marker=marker, markersize=4, markerfacecolor=face, linestyle="", zorder=3)
    return [low, centre, high]


def _is_found(effect: Effect) -> bool:
    return effect.outcome in ("better", "worse")


def _padded(ends: Sequence[float]) -> tuple[float, float]:
    low, high = min(ends), max(ends)
    room = max(0.06 * (high - low), 0.005)
    return low - room, high + room


def _legend(figure: Figure, comparison: Comparison, left_out: int) -> None:
    others = comparison.runs[1:]
    if len(others) > 1:
        handles = [
            Line2D([], [], color=COLOURS[j % len(COLOURS)], marker=MARKERS[j % len(MARKERS)], label=run.letter)
            for j, run in enumerate(others)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=len(others))
    simulated = "SIMULATED. " if comparison.is_simulated else ""
    more = f" {left_out} smaller changes are left out." if left_out else ""
    names = "; ".join(_short(run.letter, run.path) for run in comparison.runs)
    text = (
        f"{simulated}{names}. {comparison.level * 100:g}% intervals; filled: a difference was found, over all figures "
        f"at once.{more}"
    )
    figure.supxlabel(textwrap.fill(text, 70), fontsize=5.5, color=INK, alpha=0.8)


def _short(letter: str, path: str) -> str:
    return f"{letter} {path if len(path) <= 40 else '…' + path[-39:]}"
