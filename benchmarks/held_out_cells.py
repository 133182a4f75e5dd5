"""Fits some cells of a grid and predicts the others: what `fit_public_grid.py` and `fit_recorded_runs.py` share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from specbench.planning.cells import Observation
from specbench.planning.design import information
from specbench.planning.fit import fit, unfitted
from specbench.planning.parameters import Model
from specbench.planning.prediction import Estimate, calibrated

SEED = 20_260


@dataclass(frozen=True)
class Result:
    """choice: of the cells that were fitted;  errors over all others, pooled over splits

    mape_percent: mean of |predicted ÷ measured − 1|, of throughput;  speedup_mape_percent: of speedup over the cell
        without speculation beside it, None where the grid has none
    coverage_percent: of throughput's 90 % intervals
    regret_percent: throughput lost by the arm that is predicted best of its batch size, mean, and the worst
    """

    choice: str
    cells: int
    of: int
    splits: int
    held_out: int
    mape_percent: float
    speedup_mape_percent: float | None
    coverage_percent: float
    regret_percent: float
    worst_regret_percent: float


def chosen(model: Model, grid: Sequence[Observation], cells: int) -> list[int]:
    """Cells in the order in which the model asks for them, each measured before the next is chosen."""
    points = [o.point for o in grid]
    found, taken = unfitted(model, grid[0].noise), list[int]()
    while len(taken) < cells:
        told = information(found, points, points)
        told[taken] = 0
        taken.append(int(told.argmax()))
        found = fit(model, [grid[i] for i in taken])
    return taken


def at_random(grid: Sequence[Observation], cells: int, splits: int, rng: np.random.Generator) -> list[list[int]]:
    return [rng.choice(len(grid), cells, replace=False).tolist() for _ in range(splits)]


def judge(choice: str, model: Model, grid: Sequence[Observation], splits: Sequence[Collection[int]]) -> Result:
    """Fits each split's cells and predicts the others; a split of all cells predicts itself."""
    errors: list[float] = []
    speedup_errors: list[float] = []
    held_in: list[bool] = []
    regrets: list[float] = []
    plain = {(o.point.workload, o.point.batch_size): o for o in grid if not o.point.gamma}
    for split in splits:
        found = calibrated(fit(model, [grid[i] for i in split]))
        predicted = found.throughput([o.point for o in grid])
        gains = found.speedup([o.point for o in grid])
        regrets += _regrets(grid, predicted)
        for i, (o, rate, gain) in enumerate(zip(grid, predicted, gains, strict=True)):
            if i in split and len(split) < len(grid):
                continue
            errors.append(abs(rate.value / o.tokens_per_second - 1))
            held_in.append(rate.low <= o.tokens_per_second <= rate.high)
            beside = plain.get((o.point.workload, o.point.batch_size))
            if o.point.gamma and beside is not None:
                speedup_errors.append(abs(gain.value / (o.tokens_per_second / beside.tokens_per_second) - 1))
    return Result(
        choice,
        len(splits[0]),
        len(grid),
        len(splits),
        len(errors),
        _percent(errors),
        _percent(speedup_errors) if speedup_errors else None,
        _percent(held_in),
        _percent(regrets),
        round(100 * max(regrets), 2),
    )


def _regrets(grid: Sequence[Observation], predicted: Sequence[Estimate]) -> list[float]:
    """By workload and batch size: 1 − throughput of the arm that is predicted best over that of the best one."""
    groups: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for o, e in zip(grid, predicted, strict=True):
        groups[o.point.workload, o.point.batch_size].append((e.value, o.tokens_per_second))
    return [1 - max(arms)[1] / max(rate for _, rate in arms) for arms in groups.values()]


def _percent(shares: Sequence[float]) -> float:
    return round(100 * float(np.mean(shares)), 2)
