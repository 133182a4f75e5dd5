"""One line per arm over batch sizes, rates or draft positions; a panel per workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedLocator,
    LogLocator,
    NullLocator,
    PercentFormatter,
    ScalarFormatter,
    StrMethodFormatter,
)

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.report.drawing.canvas import Styles, add_legend, panels, styles_of, unique
from specbench.report.style import FAINT, INK, LineStyle

_HEIGHT = 2.0
_FLAT = 6
_Value = Callable[[CellSummary], float | None]


def throughput_against_speed(summary: RunSummary) -> Figure | None:
    """Tokens per second of the server against those of a user, with the Pareto front."""
    cells = [c for c in summary.cells if c.per_user_tokens_per_s and c.output_tokens_per_s]

    def draw(axes: Any, panel: Sequence[CellSummary], styles: Styles) -> None:
        sound = [c for c in panel if c.is_sound]
        front = _front((c.per_user_tokens_per_s or 0.0, c.output_tokens_per_s or 0.0, c.batch_size) for c in sound)
        places = ([p[0] for p in front], [p[1] for p in front])
        axes.plot(*places, color=FAINT, linewidth=5, solid_capstyle="round", zorder=1)
        _lines(axes, panel, styles, lambda c: c.per_user_tokens_per_s, lambda c: c.output_tokens_per_s)
        for x, y, batch_size in front:
            axes.annotate(str(batch_size), (x, y), xytext=(4, 4), textcoords="offset points", fontsize=6, color=INK)
        axes.set(xlabel="tokens/s per user (1 / TPOT p50)", ylabel="output tokens/s")
        axes.set_xlim(0, 1.12 * max(c.per_user_tokens_per_s or 0.0 for c in panel))
        axes.set_ylim(0, 1.12 * max(c.output_tokens_per_s or 0.0 for c in panel))

    return _by_workload(summary, cells, draw)


def latency_over_rate(summary: RunSummary) -> Figure | None:
    """End-to-end p99 of an open loop."""
    cells = [c for c in summary.cells if c.is_open_loop and c.e2e_ms_p99 is not None]

    def draw(axes: Any, panel: Sequence[CellSummary], styles: Styles) -> None:
        _lines(axes, panel, styles, lambda c: c.request_rate, lambda c: c.e2e_ms_p99)
        axes.set(xlabel="requests/s that came", ylabel="E2E latency p99, ms", yscale="log")
        _plain_log_axis(axes)

    return _by_workload(summary, cells, draw)


def acceptance_by_position(summary: RunSummary) -> Figure | None:
    """Each arm at its smallest batch size: acceptance is a matter of texts, not of batch mates."""
    arms: dict[tuple[str, str, int], CellSummary] = {}
    for c in summary.cells:
        if c.position_acceptance:
            arms.setdefault((c.workload, c.method, c.gamma), c)

    def draw(axes: Any, panel: Sequence[CellSummary], styles: Styles) -> None:
        for c in panel:
            values = c.position_acceptance or ()
            _line(axes, range(1, len(values) + 1), values, c.label, styles[c.method, c.gamma])
        axes.set(xlabel="position in the draft", ylabel="share of steps", ylim=(0, 1.02))
        axes.xaxis.set_major_locator(FixedLocator(range(1, max(c.gamma for c in panel) + 1)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))

    return _by_workload(summary, list(arms.values()), draw)


def over_batch_size(summary: RunSummary, label: str, value: _Value) -> Figure | None:
    """A figure of each cell, from 0 on; where that would press the smaller ones flat, on a logarithmic scale."""
    cells = [c for c in summary.cells if value(c) is not None]

    def draw(axes: Any, panel: Sequence[CellSummary], styles: Styles) -> None:
        _lines(axes, panel, styles, lambda c: c.batch_size, value)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_locator(FixedLocator(sorted({c.batch_size for c in panel})))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.set(xlabel="batch size", ylabel=label)
        known = [v for c in panel if (v := value(c))]
        if known and max(known) > _FLAT * min(known):
            axes.set_yscale("log")
            _plain_log_axis(axes)
        else:
            axes.set_ylim(0, None)

    return _by_workload(summary, cells, draw)


def _plain_log_axis(axes: Any) -> None:
    """Figures as people write them."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _by_workload(
    summary: RunSummary, cells: Sequence[CellSummary], draw: Callable[[Any, Sequence[CellSummary], Styles], None]
) -> Figure | None:
    if not cells:
        return None
    workloads, arms = unique(c.workload for c in cells), unique(c.label for c in cells)
    figure, axes = panels(summary, [_HEIGHT] * len(workloads), legend=len(arms))
    styles = styles_of(summary.cells)
    for panel, workload in zip(axes, workloads, strict=True):
        draw(panel, [c for c in cells if c.workload == workload], styles)
        panel.set_title(workload, loc="left")
    add_legend(figure, axes)
    return figure


def _lines(axes: Any, cells: Sequence[CellSummary], styles: Styles, x: _Value, y: _Value) -> None:
    """One line per arm over its batch sizes or rates; hollow where nothing may rest on a cell."""
    for arm, style in styles.items():
        of_arm = [c for c in cells if (c.method, c.gamma) == arm]
        line = sorted(of_arm, key=lambda c: (c.batch_size, c.request_rate or 0))
        if line:
            _line(axes, [x(c) for c in line], [y(c) for c in line], line[0].label, style)
            hollow = [c for c in line if not c.is_sound]
            axes.plot(
                [x(c) for c in hollow], [y(c) for c in hollow], linestyle="", marker=style.marker, color=style.colour,
                markerfacecolor="white", zorder=4,
            )  # fmt: skip


def _line(axes: Any, x: Sequence[float | None], y: Sequence[float | None], label: str, style: LineStyle) -> None:
    axes.plot(x, y, label=label, color=style.colour, marker=style.marker, linestyle=style.dash, zorder=3)


def _front(points: Iterable[tuple[float, float, int]]) -> list[tuple[float, float, int]]:
    """Of (x, y, batch size) those that no other beats on both axes, from fast users to high throughput."""
    front: list[tuple[float, float, int]] = []
    for point in sorted(points, reverse=True):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front
