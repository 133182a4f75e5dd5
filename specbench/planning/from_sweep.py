"""A sweep under way as a grid to choose from: its points, what they cost, and what a stop leaves to be told."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np

from specbench.planning.best_arm import BestArm, best_arms
from specbench.planning.cells import Observation, Point, arms_of
from specbench.planning.fit import fit
from specbench.planning.from_run import measured
from specbench.planning.prediction import Calibrated, calibrated
from specbench.planning.sequential import Costs, Look, look, start_design
from specbench.planning.sequential_text import said
from specbench.planning.text import figures
from specbench.quantities import budget_seconds
from specbench.store.measurement import Cell, Measurement
from specbench.sweep.early import Chooser, Step
from specbench.sweep.plan import SweepPlan
from specbench.sweep.requests import WARM_UP_TOKENS, request_order
from specbench.sweep.runner import Sweep

_RATE = 100.0
"""Tokens per second to reckon with before the first cell, as a dry run does."""

_WARM_UP_COHORTS = 2
"""A warm-up takes two at least, and mostly no more."""

_UNKNOWN_PROMPT = 100.0
"""Tokens of a prompt of a workload that was not sent yet; only costs hang on it, and little."""


def chooser(sweep: Sweep) -> Chooser:
    """What `run_until_confident` asks after each launch."""
    grid = _Grid.of(sweep)
    return lambda measurements: _step(grid, measurements)


def start_cells(plan: SweepPlan) -> tuple[Cell, ...]:
    """The cells that a sweep begins with whatever it will see."""
    cells = _cells(plan)
    return tuple(cells[i] for i in start_design(_points(cells, (), 1)))


@dataclass(frozen=True)
class _Grid:
    """cells: to choose from;  requests: of one measurement of each"""

    sweep: Sweep
    cells: tuple[Cell, ...]
    requests: tuple[int, ...]

    @classmethod
    def of(cls, sweep: Sweep) -> _Grid:
        cells = _cells(sweep.plan)
        orders = (request_order(sweep.workloads[c.workload], sweep.config, c.batch_size) for c in cells)
        return cls(sweep, cells, tuple(map(len, orders)))

    def working(self, measurements: Sequence[Measurement]) -> _Grid:
        """Without cells that failed and arms that have only ever failed: nobody could switch them on."""
        ok = {m.cell for m in measurements if m.status == "ok"}
        failed = {m.cell for m in measurements} - ok
        lost = {c.speculation for c in failed} - {c.speculation for c in ok}
        kept = [i for i, c in enumerate(self.cells) if c not in failed and c.speculation not in lost]
        return replace(self, cells=tuple(self.cells[i] for i in kept), requests=tuple(self.requests[i] for i in kept))

    def left(self, measurements: Sequence[Measurement]) -> Mapping[int, int]:
        """How many visits of a cell the plan has left, by the cell's index; of cells of which none has failed."""
        taken, failed = {m.id for m in measurements}, {m.cell for m in measurements if m.status == "failed"}
        visits = {(m.cell, m.replicate) for m in self.sweep.plan.measurements if m.id not in taken}
        counts = Counter(cell for cell, _ in visits if cell not in failed)
        return {i: counts[cell] for i, cell in enumerate(self.cells) if counts[cell]}

    def costs(self, points: Sequence[Point], found: Calibrated | None) -> Costs:
        """Seconds by the rates of the fit, warm-up included, and by the starts that there were."""
        config, store = self.sweep.config, self.sweep.store
        rates = np.exp(found.fit.log_rates(points)) if found else np.full(len(points), _RATE)
        starts = [float(record["start_seconds"]) for record in store.launches().values()]
        warm_up = _WARM_UP_COHORTS * min(WARM_UP_TOKENS, config.max_tokens)
        seconds = tuple(
            config.repeats * float((count * p.output_tokens + warm_up * p.batch_size) / rate)
            for count, p, rate in zip(self.requests, points, rates, strict=True)
        )
        return Costs(float(np.mean(starts)) if starts else self.sweep.backend.start_seconds, seconds)

    def budget(self, costs: Costs, measurements: Sequence[Measurement]) -> float:
        """Seconds that are left to spend: never more than the whole grid would have taken, reckoned alike."""
        config, plan = self.sweep.config, self.sweep.plan
        each = {cell: seconds / config.repeats for cell, seconds in zip(self.cells, costs.cells, strict=True)}

        def seconds(cells: Iterable[Cell], starts: int) -> float:
            return starts * costs.launch + math.fsum(each.get(cell, 0.0) for cell in cells)

        spent = seconds((m.cell for m in measurements), sum(1 for _ in groupby(measurements, lambda m: m.launch)))
        whole = seconds((m.cell for m in plan.measurements), len(plan.launches))
        return budget_seconds(config.budget or "100%", whole) - spent


def _step(whole: _Grid, measurements: Sequence[Measurement]) -> Step:
    grid, config = whole.working(measurements), whole.sweep.config
    seen = measured(grid.sweep.store) if any(m.status == "ok" for m in measurements) else None
    points = _points(grid.cells, seen.observations if seen else (), config.max_tokens)
    found = calibrated(fit(replace(seen.model, arms=arms_of(points)), seen.observations)) if seen else None
    costs = grid.costs(points, found)
    left, budget = grid.left(measurements), grid.budget(costs, measurements)
    shown = look(found, points, left, costs, confidence=config.confidence, budget=budget)
    return Step(
        tuple(grid.cells[i] for i in shown.visit),
        said(shown, points, found, config.confidence),
        None if found is None else _record(grid, shown, points, found),
    )


def _cells(plan: SweepPlan) -> tuple[Cell, ...]:
    return tuple(dict.fromkeys(m.cell for m in plan.measurements))


def _points(cells: Sequence[Cell], observations: Sequence[Observation], output_tokens: float) -> tuple[Point, ...]:
    """Cells with the lengths seen on their workload, or on all where there is none of it yet.

    output_tokens: of a request, as long as nothing was seen
    """
    lengths: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for o in observations:
        lengths[o.point.workload].append((o.point.prompt_tokens, o.point.output_tokens))
    anywhere = [pair for pairs in lengths.values() for pair in pairs] or [(_UNKNOWN_PROMPT, output_tokens)]
    shares = {(o.point.workload, o.point.method): o.point.drafted_share for o in observations}
    points = []
    for c in cells:
        prompt, output = np.mean(lengths.get(c.workload, anywhere), axis=0)
        method = c.speculation.name
        share = shares.get((c.workload, method), 1.0)
        points.append(Point(c.workload, method, c.speculation.gamma, c.batch_size, float(prompt), float(output), share))
    return tuple(points)


def _record(grid: _Grid, shown: Look, points: Sequence[Point], found: Calibrated) -> Mapping[str, Any]:
    """What analysis reads back (`specbench.analysis.early_stop`)."""
    seen = {o.point.key for o in found.fit.observations}
    missing = [i for i, p in enumerate(points) if p.key not in seen]
    rates, gains = figures(found, [points[i] for i in missing])
    confidence = grid.sweep.config.confidence
    methods = dict.fromkeys(p.method for p in points if p.gamma)
    alone = {method: [p for p in points if p.method == method or not p.gamma] for method in methods}
    return {
        "why": shown.reason or "under way",
        "text": said(shown, points, found, confidence),
        "confidence": confidence,
        "measured_cells": len(points) - len(missing),
        "grid_cells": len(points),
        "best": [_told(b, points, confidence) for b in shown.best],
        "by_method": {
            method: [_told(b, its, confidence) for b in best_arms(found, its)] for method, its in alone.items()
        },
        "predicted": [
            {
                "target": grid.cells[i].target,
                "workload": points[i].workload,
                "method": points[i].method,
                "gamma": points[i].gamma,
                "drafter": grid.cells[i].speculation.drafter,
                "batch_size": points[i].batch_size,
                "temperature": grid.cells[i].temperature,
                "output_tokens_per_s": rate.value,
                # Plain decoding beside itself is 1 by definition, as in a measured row.
                "speedup": gain.value if points[i].gamma else 1.0,
                "speedup_ci_low": gain.low if points[i].gamma else 1.0,
                "speedup_ci_high": gain.high if points[i].gamma else 1.0,
            }
            for i, rate, gain in zip(missing, rates, gains, strict=True)
        ],
    }


def _told(b: BestArm, points: Sequence[Point], confidence: float) -> Mapping[str, Any]:
    p = points[b.best]
    return {
        "workload": p.workload,
        "batch_size": p.batch_size,
        "method": p.method,
        "gamma": p.gamma,
        "probability": b.probability,
        "settled": b.probability >= confidence,
    }
