"""The plot of `specbench simulate`: the course of the traffic and what it made of the fleet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from specbench.planning.simulator import tally
from specbench.planning.simulator.outcome import Outcome, quantile
from specbench.report.figure_file import WIDTH
from specbench.report.style import COLOURS, INK, RC

Floats = NDArray[np.float64]

_HEIGHT = 1.3
_UNITS = ((7200.0, 3600.0, "hours"), (180.0, 60.0, "minutes"), (0.0, 1.0, "seconds"))
"""From how many seconds on time is shown in which unit."""


def draw_simulation(outcomes: Sequence[Outcome], slo: Mapping[str, float], title: str) -> Figure:
    """Requests as they come and end; TTFT and TPOT, 95th percentile of the requests that arrived then, with the bounds
    of the objective (`ttft_p95` …, seconds); how many sequences decode together; how busy replicas and caches are.

    A colour per policy.
    """
    first = outcomes[0].counted
    size, unit = next((size, unit) for least, size, unit in _UNITS if first.end >= least)
    hours = (np.arange(len(first.course)) + 0.5) * first.interval / size
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH, 5 * _HEIGHT + 0.4), layout="constrained")
        requests, ttft, tpot, batch, busy = figure.subplots(5, 1, sharex=True)
        came = outcomes[0].scale * first.course[:, tally.ARRIVED] / first.interval
        requests.plot(hours, came, color=INK, linewidth=0.8, linestyle=":", label="requests that come")
        for outcome, colour in zip(outcomes, COLOURS, strict=False):
            course = outcome.counted.course
            label = outcome.fleet.replica.policy
            ended = outcome.scale * course[:, tally.FINISHED] / first.interval
            requests.plot(hours, ended, color=colour, linewidth=0.8, label=label)
            ttft.plot(hours, _percentiles(outcome.counted.course_ttft), color=colour, linewidth=0.8)
            tpot.plot(hours, _percentiles(outcome.counted.course_tpot), color=colour, linewidth=0.8)
            at_work = outcome.simulated_replicas * first.interval
            with np.errstate(invalid="ignore"):
                batch.plot(hours, course[:, tally.SEQUENCES] / course[:, tally.BUSY], color=colour, linewidth=0.8)
            busy.plot(hours, 100 * course[:, tally.BUSY] / at_work, color=colour, linewidth=0.8)
            cache = course[:, tally.CACHE] / (at_work * outcome.fleet.replica.blocks)
            busy.plot(hours, 100 * cache, color=colour, linewidth=0.8, linestyle="--")
        requests.set(ylabel="requests/s", ylim=(0, None))
        _time_axis(ttft, "TTFT p95, ms", slo.get("ttft_p95"))
        _time_axis(tpot, "TPOT p95, ms", slo.get("tpot_p95"))
        batch.set(ylabel="sequences\nin a step", ylim=(0, None))
        busy.set(ylabel="busy, % (dashed:\ncache)", ylim=(0, 102), xlabel=unit)
        for axes in (requests, ttft, tpot, batch, busy):
            axes.axvspan(0, first.start / size, color=INK, alpha=0.07, linewidth=0)
        figure.align_ylabels()
        figure.legend(*requests.get_legend_handles_labels(), loc="outside upper left", ncols=3, columnspacing=1.2)
        figure.supxlabel(title, fontsize=5.5, color=INK, alpha=0.8)
    return figure


def _percentiles(histograms: NDArray[np.int32]) -> Floats:
    """Milliseconds, an interval each; NaN where none arrived."""
    return np.array([1e3 * quantile(row, 0.95) if row.any() else np.nan for row in histograms])


def _time_axis(axes: Axes, label: str, bound: float | None) -> None:
    axes.set(ylabel=label, yscale="log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    if bound is not None:
        axes.axhline(1e3 * bound, color=INK, linewidth=0.8, linestyle=":")
