"""A sweep that chooses its cells one launch after another, and stops once enough is known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from specbench.store.measurement import Cell, Measurement
from specbench.store.run import EARLY_STOP
from specbench.sweep.progress import Progress
from specbench.sweep.runner import Sweep, run_sweep


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be done next.

    cells: to measure on one launch, each once more; empty to stop
    said:  a sentence on why
    record: what the run keeps of it, as JSON values (specbench.analysis.early_stop); None while nothing is measured
    """

    cells: tuple[Cell, ...]
    said: str
    record: Mapping[str, Any] | None = None


Chooser = Callable[[Sequence[Measurement]], Step]
"""From all that was measured, failures included, to what is next."""


async def run_until_confident(sweep: Sweep, progress: Progress, choose: Chooser) -> None:
    """Measure what the chooser asks for until it stops.

    What it asks for depends on the store alone, so that a run that was interrupted goes on as if it had not been. A
    measurement that failed is not tried again here.
    """
    while True:
        measurements = sweep.store.measurements()
        step = choose(measurements)
        progress.note(step.said)
        if step.record is not None:
            sweep.store.write_json(EARLY_STOP, step.record)
        if not step.cells:
            return
        visit = sweep.plan.visit(step.cells, {m.id for m in measurements})
        await run_sweep(replace(sweep, plan=visit), progress)
