"""A metric's figures in a cell of a snapshot, by replicate, and why there are none."""

from __future__ import annotations

from specbench.analysis.cost import Economics, cost_per_million_output_tokens
from specbench.comparison.metrics import ACCEPTANCE, COST, Metric
from specbench.comparison.snapshot import CellFigures, Snapshot

_WINDOWED = ("speedup", "output_tokens_per_s", COST)
"""Of the steady window of a measurement, which a short one does not have."""


def by_replicate(side: Snapshot, cell: CellFigures, metric: Metric, rent: Economics) -> dict[int, float]:
    """Those that are known. rent: what both sides of a comparison pay"""
    name = "output_tokens_per_s" if metric.name == COST else metric.name
    known = _numbered(side, cell.figures.get(name, ()))
    if metric.name != COST:
        return known
    costs = {r: cost_per_million_output_tokens(speed, rent) for r, speed in known.items()}
    return {r: cost for r, cost in costs.items() if cost is not None}


def within(side: Snapshot, cell: CellFigures, metric: Metric) -> dict[int, float]:
    """Standard errors of the logarithms inside each launch, where they are known."""
    return _numbered(side, cell.within.get(metric.name, ()))


def counted_unlike(metric: Metric, before: CellFigures, after: CellFigures) -> str | None:
    """Acceptance per step and per draft differ, so that only figures from one kind of source are alike."""
    sources = before.acceptance_source, after.acceptance_source
    if metric.name != ACCEPTANCE or None in sources or sources[0] == sources[1]:
        return None
    return f"Acceptance is not counted alike: from {sources[0]} → from {sources[1]}."


def why_none(metric: Metric, *cells: CellFigures) -> str:
    """Why these cells have no figure of it."""
    reasons = [text for cell in cells for text in (*cell.left_out, cell.error) if text]
    if reasons:
        return reasons[0]
    return "too few requests for a steady window." if metric.name in _WINDOWED else "not reported."


def _numbered(side: Snapshot, values: tuple[float | None, ...]) -> dict[int, float]:
    return {r: value for r, value in zip(side.replicates, values, strict=False) if value is not None}
