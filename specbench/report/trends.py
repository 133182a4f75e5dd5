"""The plot of `specbench history`: figures from run to run."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from specbench.errors import SpecbenchError
from specbench.history.series import Point, Series
from specbench.report.figure_file import save
from specbench.report.style import INK, RC, LineStyle, line_styles

_PANEL_WIDTH, _PANEL_HEIGHT = 3.3, 2.1
_MOST_PANELS = 24
_MOST_DATES = 5
_SPREAD = 0.3
"""Of a run's width, over which its points stand beside each other, so that their intervals can be told apart."""


def write_trends(path: Path, series: Sequence[Series], metrics: Sequence[str]) -> None:
    """PNG, SVG or PDF, by the file's ending. Raises SpecbenchError for another."""
    save(draw_trends(series, metrics), path)


def draw_trends(series: Sequence[Series], metrics: Sequence[str]) -> Figure:
    """A row of panels per metric and place, a column per load; runs from left to right, evenly spaced, newest last.

    Hollow markers are figures that a mark makes no evidence; the baseline's other forms stand in the table alone.
    Raises SpecbenchError where it would be too many panels.
    """
    series = [s for s in series if not s.as_deployed and not s.again]
    if not series:
        raise SpecbenchError("there is nothing to plot but the baseline's other forms, which the table shows.")
    places = list(dict.fromkeys(s.place for s in series))
    loads = list(dict.fromkeys((s.batch_size, s.request_rate) for s in series))
    rows = [(place, metric) for place in places for metric in metrics]
    if len(rows) * len(loads) > _MOST_PANELS:
        raise SpecbenchError(
            f"the plot would have {len(rows) * len(loads)} panels, and {_MOST_PANELS} are the most that can be read. "
            "Choose with --workload, --method, --batch-size or --metric."
        )
    with mpl.rc_context(RC):
        size = (_PANEL_WIDTH * len(loads) + 1.7, _PANEL_HEIGHT * len(rows) + 0.35)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(rows), len(loads), squeeze=False)
        styles = line_styles(list(dict.fromkeys((s.method, s.gamma) for s in series)))
        for i, (place, metric) in enumerate(rows):
            for j, load in enumerate(loads):
                panel = [s for s in series if s.place == place and (s.batch_size, s.request_rate) == load]
                _panel(axes[i][j], panel, metric, styles)
        handles = {label: h for ax in axes.flat for h, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(handles.values(), handles.keys(), loc="outside right upper")
    return figure


def _panel(axes: Any, series: Sequence[Series], metric: str, styles: dict[tuple[str, int], LineStyle]) -> None:
    """Runs of this panel's cells share one axis, so that points of one run stand above each other."""
    if not series:
        axes.set_axis_off()
        return
    dates = {p.run: p.created_at for s in series for p in s.points}
    order = {run: i for i, run in enumerate(sorted(dates, key=lambda run: (str(dates[run] or ""), run)))}
    for i, s in enumerate(series):
        style = styles[s.method, s.gamma]
        aside = _SPREAD * ((i + 0.5) / len(series) - 0.5)
        points = [(order[p.run] + aside, p) for p in s.points if metric in p.figures]
        _line(axes, [(x, p) for x, p in points if not p.is_void], metric, s.label, style)
        void = [(x, p.figures[metric].value) for x, p in points if p.is_void]
        axes.plot(
            [x for x, _ in void], [y for _, y in void], linestyle="", marker=style.marker, color=style.colour,
            markerfacecolor="none", zorder=3,
        )  # fmt: skip
    if metric.endswith("speedup"):
        axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.set_title(textwrap.fill(f"{series[0].load}, {series[0].place}", 48), fontsize=7.5)
    axes.set(ylabel=metric.replace("_", " "))
    names = list(order)
    shown = sorted({round(i * (len(names) - 1) / max(1, _MOST_DATES - 1)) for i in range(_MOST_DATES)})
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.set_xticks(shown, [_date(dates[names[i]]) for i in shown], fontsize=7, rotation=20, ha="right")
    axes.set_xlim(-0.5, len(names) - 0.5)


def _line(axes: Any, points: Sequence[tuple[float, Point]], metric: str, label: str, style: LineStyle) -> None:
    figures = [(x, p.figures[metric]) for x, p in points]
    axes.plot(
        [x for x, _ in figures], [f.value for _, f in figures], label=label, color=style.colour, marker=style.marker,
        linestyle=style.dash, zorder=3,
    )  # fmt: skip
    known = [(x, f.low, f.high) for x, f in figures if f.has_interval]
    axes.vlines(
        [x for x, _, _ in known], [low for _, low, _ in known], [high for _, _, high in known], color=style.colour,
        linewidth=1.1, alpha=0.6, zorder=2,
    )  # fmt: skip


def _date(moment: Any) -> str:
    return moment.strftime("%Y-%m-%d") if moment else "no date"
