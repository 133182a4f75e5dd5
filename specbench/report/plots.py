"""The plots of a run, drawn a paper's column wide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import matplotlib as mpl
from matplotlib.figure import Figure

from specbench.analysis.summary import RunSummary
from specbench.report.drawing.heat_map import speedup_map
from specbench.report.drawing.lines import (
    acceptance_by_position,
    latency_over_rate,
    over_batch_size,
    throughput_against_speed,
)
from specbench.report.drawing.resources import is_counted, over_time
from specbench.report.style import RC
from specbench.store.measurement import Measurement

_HOLLOW = "Hollow: marked as no evidence, or outputs diverge."


@dataclass(frozen=True, slots=True)
class Plot:
    """name: file name without ending;  caption: what to see in it, for people who do not see it as well"""

    name: str
    caption: str
    figure: Figure


def draw_plots(summary: RunSummary, measurements: Sequence[Measurement]) -> list[Plot]:
    """All plots that the run has data for. The baseline's other forms stand in the tables alone."""
    summary = replace(summary, cells=tuple(c for c in summary.cells if not c.as_deployed and not c.again))
    with mpl.rc_context(RC):
        found = (
            (
                "speedup",
                "Speedup over plain decoding by arm and batch size: violet gains, orange loses. Bold: the 95% interval "
                "excludes 1. ≠: outputs diverge. Hatched: not measured; in parentheses: measured, but marked as no "
                "evidence.",
                speedup_map(summary),
            ),
            (
                "pareto",
                "Throughput against per-user speed, a point for each batch size. Upper right is better; the broad grey "
                f"line is the Pareto front, the numbers along it are batch sizes. {_HOLLOW}",
                throughput_against_speed(summary),
            ),
            (
                "latency",
                "End-to-end latency, 99th percentile, over the rate at which requests came, counted from when each was "
                "due: lower is better, and a line turns up where the server no longer keeps pace. "
                f"{_HOLLOW}",
                latency_over_rate(summary),
            ),
            (
                "acceptance",
                "Acceptance by draft position: the share of steps in which the token there was accepted. Degenerate "
                "requests are left out.",
                acceptance_by_position(summary),
            ),
            _cost(summary),
            ("resources", _resources_caption(measurements), over_time(summary, measurements)),
        )
    return [Plot(name, caption, figure) for name, caption, figure in found if figure is not None]


def _cost(summary: RunSummary) -> tuple[str, str, Figure | None]:
    """Without a price throughput stands in."""
    currency = next((c.currency for c in summary.cells if c.cost_per_million_output_tokens is not None), None)
    if currency is None:
        caption = f"Output tokens per second over batch size: higher is better. {_HOLLOW}"
        return "throughput", caption, over_batch_size(summary, "output tokens/s", lambda c: c.output_tokens_per_s)
    caption = f"Cost of a million output tokens over batch size: lower is better. {_HOLLOW}"
    label = f"{currency} / M output tokens"
    return "cost", caption, over_batch_size(summary, label, lambda c: c.cost_per_million_output_tokens)


def _resources_caption(measurements: Sequence[Measurement]) -> str:
    return (
        "Memory and utilization of the server over the measured time, each launch in the colour of its method, plain "
        "decoding white. "
    ) + (
        "Solid: share of multiprocessors busy; dashed: share of the memory bandwidth used."
        if is_counted(measurements)
        else "Without a GPU: memory of the server's processes, and their CPU use (100% is one core)."
    )
