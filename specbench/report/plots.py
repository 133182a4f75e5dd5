"""The plots of a run, as matplotlib figures that `save` turns into PNG for papers and SVG for the page."""

from __future__ import annotations

import io
import math
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.text import Text
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
from specbench.report.style import COLOURS, DIVERGING, FAINT, INK, RC, LineStyle, line_styles
from specbench.store.measurement import Measurement

_PANEL_WIDTH, _PANEL_HEIGHT, _DPI = 4.6, 3.5, 130
_MOST_SAMPLES = 1_500
_LETTERS_PER_INCH = 17  # of 7.5 points


@dataclass(frozen=True, slots=True)
class Plot:
    """name: file name without ending;  caption: what to see in it, for people who do not see it as well"""

    name: str
    caption: str
    figure: Figure

    @property
    def is_wide(self) -> bool:
        """Whether it has panels side by side, which half a page's width would shrink beyond reading."""
        return bool(self.figure.get_figwidth() > 2 * _PANEL_WIDTH - 1)


def draw_plots(summary: RunSummary, measurements: Sequence[Measurement]) -> list[Plot]:
    """All plots that the run has data for. The baseline's other forms stand in the tables alone."""
    summary = replace(summary, cells=tuple(c for c in summary.cells if not c.as_deployed and not c.again))
    with mpl.rc_context(RC):
        found = (
            _speedup(summary),
            _pareto(summary),
            _latency(summary),
            _acceptance(summary),
            _cost(summary),
            _resources(summary, measurements),
        )
    return [plot for plot in found if plot is not None]


def png(plot: Plot) -> bytes:
    """On white, for slides, papers and Markdown."""
    return _render(plot, format="png", dpi=_DPI, facecolor="white")


def svg(plot: Plot) -> str:
    """For a page: no background, text as text, `INK` and `FAINT` for the page's theme to replace."""
    text = _render(
        plot, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    ).decode()
    return text[text.index("<svg") :]


def _render(plot: Plot, **options: Any) -> bytes:
    _make_showable(plot.figure)
    buffer = io.BytesIO()
    # The salt makes ids in the SVG the same in every run, and its own for each plot of a page.
    with mpl.rc_context({**RC, "svg.hashsalt": plot.name}):
        plot.figure.savefig(buffer, **options)
    return buffer.getvalue()


def _make_showable(figure: Figure) -> None:
    """Texts from outside, such as a scenario's description, without control characters and with � for what the font
    cannot show: matplotlib would warn of each.
    """
    font = get_font(findfont("DejaVu Sans"))
    for artist in figure.findobj(Text):
        if isinstance(artist, Text):
            shown = (c for c in artist.get_text() if c == "\n" or unicodedata.category(c) != "Cc")
            artist.set_text("".join(c if c == "\n" or font.get_char_index(ord(c)) else "\ufffd" for c in shown))


def _speedup(summary: RunSummary) -> Plot | None:
    cells = [c for c in summary.cells if c.is_speculative]
    known = [c.speedup for c in cells if c.speedup is not None]
    if not known:
        return None
    workloads, methods = _unique(c.workload for c in cells), _unique(c.method for c in cells)
    # Small gains must look small: the full colour is never less than 1.5×.
    span = max(math.log(1.5), *(abs(math.log(s)) for s in known))
    norm = TwoSlopeNorm(0.0, -span, span)
    gammas = max(len({c.gamma for c in cells if c.method == m}) for m in methods)
    figure, axes = _panels(summary, len(workloads), len(methods), height=1.0 + 0.6 * gammas)
    for row, workload in enumerate(workloads):
        for column, method in enumerate(methods):
            panel = [c for c in cells if (c.workload, c.method) == (workload, method)]
            _heat_map(axes[row][column], panel, norm)
            axes[row][column].set_title(method if len(workloads) == 1 else f"{method}, {workload}")
    return Plot(
        "speedup",
        "Speedup over plain decoding by batch size and gamma: violet gains, orange loses. Bold: the 95% interval "
        "excludes 1. ≠: outputs diverge. Hatched: not measured; in parentheses: measured, but marked as no evidence.",
        figure,
    )


def _heat_map(axes: Any, cells: Sequence[CellSummary], norm: TwoSlopeNorm) -> None:
    batches, gammas = sorted({c.batch_size for c in cells}), sorted({c.gamma for c in cells})
    grid = np.full((len(gammas), len(batches)), np.nan)
    for cell in cells:
        if cell.speedup is not None and not cell.is_void:
            grid[gammas.index(cell.gamma), batches.index(cell.batch_size)] = math.log(cell.speedup)
    axes.set_facecolor("#e4e4e4")
    axes.patch.set_hatch("///")
    axes.patch.set_edgecolor("#b0b0b0")
    mesh = axes.pcolormesh(np.ma.masked_invalid(grid), cmap=DIVERGING, norm=norm, edgecolors="white", linewidth=1.5)
    for cell in cells:
        if cell.speedup is None:
            continue
        red, green, blue, _ = mesh.cmap(norm(math.log(cell.speedup)))
        shown = f"({cell.speedup:.2f})" if cell.is_void else f"{cell.speedup:.2f}"
        light = cell.is_void or 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
        axes.text(
            batches.index(cell.batch_size) + 0.5,
            gammas.index(cell.gamma) + 0.5,
            shown + (" ≠" if cell.equivalence == "DIVERGENT" else ""),
            ha="center",
            va="center",
            color="black" if light else "white",
            fontweight="bold" if _excludes_one(cell) and not cell.is_void else "normal",
        )
    axes.set_xticks(np.arange(len(batches)) + 0.5, [str(b) for b in batches])
    axes.set_yticks(np.arange(len(gammas)) + 0.5, [str(g) for g in gammas])
    axes.set(xlabel="batch size", ylabel="gamma")
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _pareto(summary: RunSummary) -> Plot | None:
    cells = [c for c in summary.cells if c.per_user_tokens_per_s and c.output_tokens_per_s]
    if not cells:
        return None

    def draw(axes: Any, panel: Sequence[CellSummary]) -> None:
        styles = _styles(summary.cells)
        front = _front([(c.per_user_tokens_per_s or 0.0, c.output_tokens_per_s or 0.0) for c in panel])
        axes.plot(*zip(*front, strict=True), color=FAINT, linewidth=7, solid_capstyle="round", zorder=1)
        _lines(axes, panel, styles, lambda c: c.per_user_tokens_per_s, lambda c: c.output_tokens_per_s)
        for c in panel:
            axes.annotate(
                str(c.batch_size),
                (c.per_user_tokens_per_s, c.output_tokens_per_s),
                xytext=(5, 4),
                textcoords="offset points",
                fontsize=8,
                color=styles[c.method, c.gamma].colour,
            )
        axes.set(xlabel="tokens/s per user (1 / TPOT p50)", ylabel="output tokens/s")
        axes.set(xlim=(0, 1.1 * front[0][0]), ylim=(0, 1.1 * front[-1][1]))

    return Plot(
        "pareto",
        "Throughput against per-user speed, each point a batch size (its number). Upper right is better; the broad "
        "grey line is the Pareto front.",
        _by_workload(summary, cells, draw),
    )


def _latency(summary: RunSummary) -> Plot | None:
    cells = [c for c in summary.cells if c.is_open_loop and c.e2e_ms_p99 is not None]
    if not cells:
        return None

    def draw(axes: Any, panel: Sequence[CellSummary]) -> None:
        _lines(axes, panel, _styles(summary.cells), lambda c: c.request_rate, lambda c: c.e2e_ms_p99)
        axes.set(xlabel="requests/s that came", ylabel="end-to-end latency p99, ms", yscale="log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.yaxis.set_minor_locator(NullLocator())

    return Plot(
        "latency",
        "End-to-end latency, 99th percentile, over the rate at which requests came, counted from when each was due: "
        "lower is better, and a line turns up where the server no longer keeps pace.",
        _by_workload(summary, cells, draw),
    )


def _acceptance(summary: RunSummary) -> Plot | None:
    """One line per arm, at its smallest batch size: acceptance is a matter of texts, not of batch mates."""
    arms: dict[tuple[str, str, int], CellSummary] = {}
    for c in summary.cells:
        if c.position_acceptance:
            arms.setdefault((c.workload, c.method, c.gamma), c)
    if not arms:
        return None

    def draw(axes: Any, panel: Sequence[CellSummary]) -> None:
        styles = _styles(summary.cells)
        for c in panel:
            values = c.position_acceptance or ()
            _line(axes, range(1, len(values) + 1), values, c.label, styles[c.method, c.gamma])
        axes.set(xlabel="position in the draft", ylabel="share of steps", ylim=(0, 1.02))
        axes.xaxis.set_major_locator(FixedLocator(range(1, max(c.gamma for c in panel) + 1)))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))

    return Plot(
        "acceptance",
        "Acceptance by draft position: the share of steps in which the token there was accepted. Degenerate requests "
        "are left out.",
        _by_workload(summary, list(arms.values()), draw),
    )


def _cost(summary: RunSummary) -> Plot | None:
    priced = [c for c in summary.cells if c.cost_per_million_output_tokens is not None]
    cells = priced or [c for c in summary.cells if c.output_tokens_per_s is not None]
    if not cells:
        return None
    label = f"{cells[0].currency} per million output tokens" if priced else "output tokens/s"

    def draw(axes: Any, panel: Sequence[CellSummary]) -> None:
        value = (lambda c: c.cost_per_million_output_tokens) if priced else (lambda c: c.output_tokens_per_s)
        _lines(axes, panel, _styles(summary.cells), lambda c: c.batch_size, value)
        _batch_axis(axes, [c.batch_size for c in panel])
        axes.set(xlabel="batch size", ylabel=label, ylim=(0, None))

    figure = _by_workload(summary, cells, draw)
    if priced:
        return Plot("cost", "Cost of a million output tokens over batch size: lower is better.", figure)
    return Plot("throughput", "Output tokens per second over batch size: higher is better.", figure)


def _resources(summary: RunSummary, measurements: Sequence[Measurement]) -> Plot | None:
    """Measurements end to end: the time between them (launches, warm-up) is not sampled."""
    taken = [m for m in measurements if m.telemetry]
    if not taken:
        return None
    figure, axes = _panels(summary, 2, 1, height=2.1, width=7.5)
    (memory,), (utilization,) = axes
    series: dict[str, list[tuple[float, float | None, float | None]]] = {}
    offset, launch = 0.0, None
    for m in taken:
        begin, end = m.telemetry[0].time, m.telemetry[-1].time
        for s in m.telemetry:
            gib = s.memory_bytes / 2**30 if s.memory_bytes is not None else None
            series.setdefault(s.source, []).append((offset + s.time - begin, gib, s.utilization_percent))
        if m.launch != launch:
            for panel in (memory, utilization):
                panel.axvline(offset, color=INK, linewidth=0.7, linestyle=":")
            memory.annotate(
                m.cell.speculation.label, (offset, 1.02), xycoords=("data", "axes fraction"), fontsize=7.5, rotation=30
            )
        offset, launch = offset + end - begin, m.launch
    for colour, (source, rows) in zip(cycle(COLOURS), series.items(), strict=False):
        thinned = np.array(rows[:: max(1, len(rows) // _MOST_SAMPLES)], dtype=float)
        memory.plot(thinned[:, 0], thinned[:, 1], color=colour, linewidth=1.2, label=source)
        utilization.plot(thinned[:, 0], thinned[:, 2], color=colour, linewidth=0.8)
    memory.margins(y=0.12)
    memory.set(ylabel="memory, GiB", ylim=(0, None))
    utilization.set(ylabel="utilization, %", xlabel="measured time, s (measurements end to end)", ylim=(0, None))
    memory.tick_params(labelbottom=False)
    memory.legend(loc="lower right")
    return Plot(
        "resources",
        "Memory and utilization of the server over the measured time; dotted lines are server launches. Source host: "
        "memory of the server's processes, and their CPU use (100% is one core).",
        figure,
    )


def _panels(
    summary: RunSummary,
    rows: int,
    columns: int,
    *,
    height: float = _PANEL_HEIGHT,
    width: float = _PANEL_WIDTH,
    beside: float = 0.0,
) -> tuple[Figure, Any]:
    """A grid of axes, sizes in inches; `beside` is room for a legend."""
    figure = Figure(figsize=(width * columns + beside, height * rows + 0.35), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    # A plot that has left its report must still say where it was measured.
    text = textwrap.fill(f"{summary.run} · {summary.machine}", int(_LETTERS_PER_INCH * figure.get_figwidth()))
    figure.supxlabel(text, fontsize=7.5, color=INK, alpha=0.75)
    return figure, axes


def _by_workload(
    summary: RunSummary, cells: Sequence[CellSummary], draw: Callable[[Any, Sequence[CellSummary]], None]
) -> Figure:
    """One panel per workload with the arms' legend beside the last."""
    workloads = _unique(c.workload for c in cells)
    figure, axes = _panels(summary, 1, len(workloads), beside=1.7)
    for panel, workload in zip(axes[0], workloads, strict=True):
        draw(panel, [c for c in cells if c.workload == workload])
        panel.set_title(workload)
    handles, labels = axes[0][-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper")
    return figure


def _styles(cells: Iterable[CellSummary]) -> dict[tuple[str, int], LineStyle]:
    return line_styles(_unique((c.method, c.gamma) for c in cells))


def _lines(
    axes: Any,
    cells: Sequence[CellSummary],
    styles: Mapping[tuple[str, int], LineStyle],
    x: Callable[[CellSummary], float | None],
    y: Callable[[CellSummary], float | None],
) -> None:
    """One line per arm over its batch sizes or rates."""
    for arm, style in styles.items():
        of_arm = [c for c in cells if (c.method, c.gamma) == arm]
        line = sorted(of_arm, key=lambda c: (c.batch_size, c.request_rate or 0))
        if line:
            _line(axes, [x(c) for c in line], [y(c) for c in line], line[0].label, style)


def _line(axes: Any, x: Sequence[float | None], y: Sequence[float | None], label: str, style: LineStyle) -> None:
    axes.plot(x, y, label=label, color=style.colour, marker=style.marker, linestyle=style.dash, zorder=3)


def _batch_axis(axes: Any, batch_sizes: Iterable[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sorted(set(batch_sizes))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())


def _front(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other beats on both axes, from fast users to high throughput."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points, reverse=True):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front


def _excludes_one(cell: CellSummary) -> bool:
    low, high = cell.speedup_ci_low, cell.speedup_ci_high
    return low is not None and high is not None and not low <= 1 <= high


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))
