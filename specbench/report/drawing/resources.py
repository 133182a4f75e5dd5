"""Memory and activity of the server over the measured time, with each launch's arm behind it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from specbench.analysis.summary import RunSummary
from specbench.report.drawing.canvas import add_legend, panels, styles_of, unique
from specbench.report.end_to_end import Span, end_to_end, step_for
from specbench.report.style import COLOURS, INK
from specbench.store.measurement import Measurement
from specbench.telemetry.sample import Sample

_HEIGHT = 1.35
_MOST_SAMPLES = 1_500


def over_time(summary: RunSummary, measurements: Sequence[Measurement]) -> Figure | None:
    """Measurements end to end. None without any sample."""
    taken = [m for m in measurements if m.telemetry]
    if not taken:
        return None
    counted, arms = is_counted(taken), unique(m.cell.speculation.name for m in taken)
    sources = unique(s.source for m in taken for s in m.telemetry)
    figure, axes = panels(summary, [_HEIGHT, _HEIGHT], legend=len(arms) + (len(sources) if len(sources) > 1 else 0))
    memory, activity = axes
    series: dict[str, list[tuple[float, float | None, float | None, float | None]]] = {}
    for span in end_to_end(taken):
        for s in span.measurement.telemetry:
            if not (counted and s.source == "host"):
                series.setdefault(s.source, []).append((span.place(s.time), *_figures(s, counted=counted)))
        _shade(axes, span, summary)
    colours = cycle(COLOURS) if len(series) > 1 else (INK,)
    for colour, (source, rows) in zip(colours, series.items(), strict=False):
        thinned = np.array(rows[:: step_for(len(rows), _MOST_SAMPLES)], dtype=float)
        memory.plot(thinned[:, 0], thinned[:, 1], color=colour, label=source if len(series) > 1 else None)
        activity.plot(thinned[:, 0], thinned[:, 2], color=colour, linewidth=0.6)
        if counted:
            activity.plot(thinned[:, 0], thinned[:, 3], color=colour, linewidth=0.6, linestyle="--")
    memory.margins(x=0, y=0.12)
    activity.margins(x=0)
    memory.set(ylabel="memory, GiB", ylim=(0, None))
    activity.set(
        ylabel="activity, %" if counted else "utilization, %", xlabel="measured time, s (end to end)", ylim=(0, None)
    )
    memory.tick_params(labelbottom=False)
    add_legend(figure, axes)
    return figure


def is_counted(measurements: Sequence[Measurement]) -> bool:
    """Whether the GPU itself counts how busy it is: NVML's utilization says no more than that some kernel ran."""
    return any(s.sm_activity_percent is not None for m in measurements for s in m.telemetry)


def _figures(s: Sample, *, counted: bool) -> tuple[float | None, float | None, float | None]:
    gib = s.memory_bytes / 2**30 if s.memory_bytes is not None else None
    return gib, s.sm_activity_percent if counted else s.utilization_percent, s.dram_activity_percent


def _shade(axes: Sequence[Any], span: Span, summary: RunSummary) -> None:
    """By method: plain decoding stays white."""
    spec = span.measurement.cell.speculation
    style = styles_of(summary.cells).get((spec.name, spec.gamma))
    plain = spec.is_plain or style is None
    for i, each in enumerate(axes):
        known = {label for _, label in zip(*axes[0].get_legend_handles_labels(), strict=True)}
        each.axvspan(
            span.begin,
            span.end,
            facecolor="white" if plain or style is None else style.colour,
            alpha=0.25,
            linewidth=0.4,
            edgecolor=INK,
            label=spec.name if i == 0 and spec.name not in known else None,
        )
