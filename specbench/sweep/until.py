"""Replicates until every speedup is known well enough, or there are as many as are allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from specbench.store.measurement import Measurement
from specbench.sweep.plan import SweepPlan, make_plan
from specbench.sweep.progress import Progress
from specbench.sweep.runner import Sweep, run_sweep

HalfWidths = Callable[[Sequence[Measurement]], Mapping[str, float]]
"""From what was measured to the share to which each cell's speedup is known, by an interval that allows looking."""


async def run_until_known(sweep: Sweep, progress: Progress, half_widths: HalfWidths) -> None:
    """Run the plan; with `until_ci`, go on one replicate at a time, in the plan's own alternating order.

    A run that was interrupted goes on where it was: what the store holds is not measured again. What failed is tried
    again once, at the beginning, and a cell that has never succeeded gets no further replicates.
    """
    config = sweep.config
    if config.until_ci is None:
        await run_sweep(sweep, progress)
        return
    replicates = max([config.replicates, *(m.replicate + 1 for m in sweep.store.measurements())])
    await run_sweep(replace(sweep, plan=_plan(sweep, replicates)), progress)
    while True:
        measurements = sweep.store.measurements()
        sound = {m.cell for m in measurements if m.status == "ok"}
        failing = {m.cell for m in measurements} - sound
        widths = half_widths(measurements)
        wide = {cell: width for cell, width in widths.items() if width > config.until_ci}
        progress.note(_state(widths, wide, config.until_ci, replicates, len(failing)))
        if not wide or replicates >= config.max_replicates:
            return
        replicates += 1
        await run_sweep(replace(sweep, plan=_plan(sweep, replicates).only(replicates - 1, sound)), progress)


def _plan(sweep: Sweep, replicates: int) -> SweepPlan:
    return make_plan(sweep.config.model_copy(update={"replicates": replicates}))


def _state(widths: Mapping[str, float], wide: Mapping[str, float], until: float, replicates: int, failing: int) -> str:
    failed = f"; {failing} cells failed in every replicate" if failing else ""
    if not widths:
        return f"no cell has a speedup, so more replicates would tell nothing{failed}."
    if not wide:
        return f"after {replicates} replicates every speedup is known to ±{until:.1%}{failed}."
    worst = max(wide, key=lambda cell: wide[cell])
    known = f"±{wide[worst]:.1%}" if wide[worst] < 10 else "nothing yet"
    unknown = f"{len(wide)} of {len(widths)} speedups are not known to ±{until:.1%}"
    return f"after {replicates} replicates {unknown}; the widest is {worst}: {known}{failed}."
