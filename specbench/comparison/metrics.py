"""What can be compared: each metric's direction, and its figure in one replicate of a cell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.latency import PERCENTILES
from specbench.analysis.marks import VOIDING
from specbench.comparison.snapshot import CellKey

ACCEPTANCE = "mean_acceptance_length"
COST = "cost_per_million_output_tokens"


@dataclass(frozen=True, slots=True)
class Metric:
    """name: the key of `--json` and column of cells.csv (docs/columns.md)

    more_is_better: its direction
    of_speculation: whether plain decoding has none
    raw: a figure of the machine; speedups are ratios to the run's own baseline, acceptance counts tokens
    timed: a raw figure of the machine as it was, which a slow day moves; memory is the same on every day
    """

    name: str
    more_is_better: bool = True
    of_speculation: bool = False
    raw: bool = True
    timed: bool = True

    @property
    def of_the_day(self) -> bool:
        return self.raw and self.timed


METRICS = {
    metric.name: metric
    for metric in (
        Metric("speedup", of_speculation=True, raw=False),
        Metric("latency_speedup", of_speculation=True, raw=False),
        Metric(ACCEPTANCE, of_speculation=True, raw=False),
        Metric("output_tokens_per_s"),
        Metric(COST, more_is_better=False),
        Metric("tpot_ms_mean", more_is_better=False),
        *(
            Metric(f"{name}_ms_p{q}", more_is_better=False)
            for name in ("ttft", "tpot", "itl", "e2e")
            for q in PERCENTILES
        ),
        Metric("memory_bytes_peak", more_is_better=False, timed=False),
        Metric("kv_capacity_tokens", timed=False),
    )
}

STORED = ("speedup", "latency_speedup", ACCEPTANCE)
"""Compared between two stored runs unless a user says otherwise: what a slow day does not move."""

INTERLEAVED = ("output_tokens_per_s", "latency_speedup", ACCEPTANCE)
"""Compared within one session, where the day is the same."""


_NORMAL_QUANTILE = 1.96
"""Half a 95% interval in standard errors."""

UNTOUCHED_BY = {ACCEPTANCE: frozenset({"client_lag", "above_memory_roof", "speedup_above_acceptance"})}
"""Marks that void a cell's times and speedup, and say nothing of what counts tokens."""


def figures(cell: CellSummary) -> dict[str, float]:
    """What is known of each metric in a report on one replicate, the marks under which it is no evidence heeded.

    Money is left out: it follows from the throughput and a price.
    """
    voiding = VOIDING & {mark.code for mark in cell.marks}
    found = {
        name: getattr(cell, name)
        for name in METRICS
        if name != COST and not voiding - UNTOUCHED_BY.get(name, frozenset())
    }
    return {name: float(value) for name, value in found.items() if value is not None and value > 0}


def within_launch(cell: CellSummary) -> dict[str, float]:
    """Of metrics that have an interval in a report on one replicate: the standard error of the logarithm."""
    known = set(figures(cell))
    bounds = {
        name: (getattr(cell, f"{name}_ci_low"), getattr(cell, f"{name}_ci_high")) for name in STORED if name in known
    }
    return {name: math.log(high / low) / (2 * _NORMAL_QUANTILE) for name, (low, high) in bounds.items() if low and high}


def applies(metric: Metric, cell: CellKey) -> bool:
    """Whether such a cell has the metric: plain decoding no acceptance, an open loop no throughput of its own."""
    if metric.of_speculation and not cell.gamma:
        return False
    if cell.request_rate is None:
        return metric.name != "latency_speedup"
    return metric.name not in ("speedup", "output_tokens_per_s", COST)
