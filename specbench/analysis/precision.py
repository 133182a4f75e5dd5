"""How well each speedup of a run is known, for one who looks after every replicate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from specbench.analysis.sequential import always_valid_margin
from specbench.analysis.speedup import pair, replicate_log_ratios
from specbench.analysis.throughput import throughput
from specbench.speculation import BASELINE
from specbench.store.measurement import Cell, Measurement


def log_ratios_by_cell(measurements: Sequence[Measurement]) -> dict[Cell, list[float]]:
    """Log ratios of steady throughput to the baseline's, one per replicate; only cells that have any."""
    cells: dict[Cell, list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        cells[measurement.cell].append(measurement)
    throughputs = {m.id: throughput(m) for m in measurements if m.status == "ok"}
    found = {
        cell: replicate_log_ratios(
            pair(taken, cells.get(replace(cell, speculation=BASELINE), ())),
            throughputs,
        )
        for cell, taken in cells.items()
        if not cell.speculation.is_baseline
    }
    return {cell: ratios for cell, ratios in found.items() if ratios}


def half_widths(measurements: Sequence[Measurement]) -> dict[str, float]:
    """By cell id: to what share either way its speedup is known, by the always-valid interval.

    Infinite after too few replicates. Cells without a speedup, which more replicates would not give one, are left out.
    """
    margins = {cell.id: always_valid_margin(ratios) for cell, ratios in log_ratios_by_cell(measurements).items()}
    return {cell: math.expm1(min(margin, 700.0)) for cell, margin in margins.items()}
