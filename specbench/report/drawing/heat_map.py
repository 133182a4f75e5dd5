"""Speedup of every arm at every batch size, as a heat map with the figures in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.report.drawing.canvas import panels, unique
from specbench.report.style import DIVERGING

_ROW, _AROUND = 0.21, 0.45
_FEW_COLUMNS = 6


def speedup_map(summary: RunSummary) -> Figure | None:
    """A panel per workload; None where no speedup is known."""
    cells = [c for c in summary.cells if c.is_speculative]
    known = [c.speedup for c in cells if c.speedup is not None]
    if not known:
        return None
    # Small gains must look small: the full colour is never less than 1.5×.
    span = max(math.log(1.5), *(abs(math.log(s)) for s in known))
    norm = TwoSlopeNorm(0.0, -span, span)
    workloads = unique(c.workload for c in cells)
    of = [[c for c in cells if c.workload == workload] for workload in workloads]
    figure, axes = panels(summary, [_ROW * len(unique(c.label for c in panel)) + _AROUND for panel in of])
    for each, panel, workload in zip(axes, of, workloads, strict=True):
        _heat_map(each, panel, norm)
        each.set_title(f"{workload}: speedup", loc="left")
    axes[-1].set_xlabel("batch size")
    return figure


def _heat_map(axes: Any, cells: Sequence[CellSummary], norm: TwoSlopeNorm) -> None:
    batches, arms = sorted({c.batch_size for c in cells}), unique(c.label for c in cells)
    grid = np.full((len(arms), len(batches)), np.nan)
    for cell in cells:
        if cell.speedup is not None and not cell.is_void:
            grid[arms.index(cell.label), batches.index(cell.batch_size)] = math.log(cell.speedup)
    axes.set_facecolor("#e4e4e4")
    axes.patch.set_hatch("/////")
    axes.patch.set_edgecolor("#b0b0b0")
    mesh = axes.pcolormesh(np.ma.masked_invalid(grid), cmap=DIVERGING, norm=norm, edgecolors="white", linewidth=1)
    for cell in cells:
        if cell.speedup is not None:
            place = batches.index(cell.batch_size) + 0.5, arms.index(cell.label) + 0.5
            _write(axes, place, cell, mesh.cmap(norm(math.log(cell.speedup))), few=len(batches) <= _FEW_COLUMNS)
    axes.set_xticks(np.arange(len(batches)) + 0.5, [str(b) for b in batches])
    axes.set_yticks(np.arange(len(arms)) + 0.5, arms)
    axes.invert_yaxis()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _write(axes: Any, place: tuple[float, float], cell: CellSummary, colour: Any, *, few: bool) -> None:
    red, green, blue, _ = colour
    light = cell.is_void or 0.299 * red + 0.587 * green + 0.114 * blue > 0.55
    shown = f"({cell.speedup:.2f})" if cell.is_void else f"{cell.speedup:.2f}"
    axes.text(
        *place,
        shown + (" ≠" if cell.equivalence == "DIVERGENT" else ""),
        ha="center",
        va="center",
        fontsize=7.5 if few else 5.5,
        color="black" if light else "white",
        fontweight="bold" if _excludes_one(cell) and not cell.is_void else "normal",
    )


def _excludes_one(cell: CellSummary) -> bool:
    low, high = cell.speedup_ci_low, cell.speedup_ci_high
    return low is not None and high is not None and not low <= 1 <= high
