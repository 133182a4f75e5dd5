"""How much of a grid `specbench sweep --until-confident` measures, and whether it decides as the whole grid does.

    python benchmarks/until_confident.py [--public GRID.csv] [--worlds 60] [--json FILE]

Replays the choice of cells over grids that were measured whole: our committed runs (the reference decoder and vLLM on a
CPU), and a grid of others where its file is given (see fit_public_grid.py). Each cell that is asked for shows what was
measured there. Then over grids whose truth is known, drawn from the prior: how often is what it calls sure wrong?
Committed as benchmarks/results/until_confident.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import fit_public_grid
import fit_recorded_runs
import numpy as np
from held_out_cells import SEED

from specbench.analysis.statistics import LEVEL
from specbench.planning.best_arm import AS_GOOD, best_arms
from specbench.planning.cells import Observation, Point, arms, arms_of
from specbench.planning.fit import fit
from specbench.planning.machine import UNKNOWN
from specbench.planning.parameters import Model
from specbench.planning.posterior import posterior
from specbench.planning.prediction import alike, calibrated
from specbench.planning.sequential import Costs, Look, look
from specbench.planning.shape import ModelShape

RESULT = Path(__file__).parent / "results" / "until_confident.json"
RUNS = ("example", "example-grid", "example-vllm")
HOW = (
    ("until sure", 0.0, 1.0, LEVEL),
    ("until sure", 3.0, 1.0, LEVEL),
    ("until sure to 80 %", 0.0, 1.0, 0.8),
    ("budget of 25 %", 0.0, 0.25, LEVEL),
)
"""Name; what a server's start costs, in cells; the share of the whole grid's cost that may be spent; the confidence."""

NOISES = (0.02, 0.05)


@dataclass(frozen=True)
class Replay:
    """how: of `HOW`;  launch_cost: of a start, in cells;  starts: that there were;  ended: why
    places: workloads and batch sizes;  settled: of them, those whose best arm was known as surely as asked
    same_arm: of them, those where the whole grid gives the same arm;  as_good: or one that it says is no more than 3 %
        faster
    regret_percent: throughput lost by the arm taken against the fastest measured, mean over places, and the worst
    """

    grid: str
    how: str
    launch_cost: float
    cells: int
    of: int
    share_percent: float
    starts: int
    ended: str
    places: int
    settled: int
    same_arm: int
    as_good: int
    regret_percent: float
    worst_regret_percent: float


@dataclass(frozen=True)
class Worlds:
    """Grids of known truth, with that noise of a cell.

    share_percent: of their cells that were measured;  sure: places that were settled, of all
    wrong_percent: of the sure ones, those where an arm is truly faster by more than 3 %;  worst_regret_percent: of them
    """

    noise_percent: float
    worlds: int
    share_percent: float
    places: int
    sure: int
    wrong_percent: float
    worst_regret_percent: float


def choose(
    model: Model,
    grid: Sequence[Observation],
    launch_cost: float = 0.0,
    share: float = 1.0,
    confidence: float = LEVEL,
) -> tuple[list[int], int, Look]:
    """Indices of the cells that are asked for one after another, the number of starts, and how it ended."""
    points, taken, starts = [o.point for o in grid], list[int](), 0
    costs = Costs(launch_cost, (1.0,) * len(grid))
    whole = launch_cost * len({(p.method, p.gamma) for p in points}) + len(grid)
    while True:
        found = calibrated(fit(model, [grid[i] for i in taken])) if taken else None
        left = dict.fromkeys(set(range(len(grid))) - set(taken), 1)
        spent = launch_cost * starts + len(taken)
        shown = look(found, points, left, costs, confidence=confidence, budget=share * whole - spent)
        if not shown.visit:
            return taken, starts, shown
        taken += shown.visit
        starts += 1


def replay(
    name: str,
    model: Model,
    grid: Sequence[Observation],
    how: str,
    launch_cost: float,
    share: float,
    confidence: float = LEVEL,
) -> Replay:
    """What is chosen, beside a fit of all cells."""
    taken, starts, shown = choose(model, grid, launch_cost, share, confidence)
    points, measured = [o.point for o in grid], np.array([o.tokens_per_second for o in grid])
    whole = calibrated(fit(model, grid))
    centre, _ = posterior(whole, points)
    same, good, regrets = 0, 0, []
    for ours, theirs in zip(shown.best, best_arms(whole, points), strict=True):
        there = [ours.best, *ours.ahead]
        same += ours.best == theirs.best
        good += bool(centre[ours.best] >= centre[there].max() - AS_GOOD)
        regrets.append(1 - measured[ours.best] / measured[there].max())
    return Replay(
        grid=name,
        how=how,
        launch_cost=launch_cost,
        cells=len(taken),
        of=len(grid),
        share_percent=_percent(len(taken) / len(grid)),
        starts=starts,
        ended=str(shown.reason),
        places=len(shown.best),
        settled=sum(b.probability >= confidence for b in shown.best),
        same_arm=same,
        as_good=good,
        regret_percent=_percent(float(np.mean(regrets))),
        worst_regret_percent=_percent(float(max(regrets))),
    )


def grids(public: Path | None) -> Iterator[tuple[str, Model, list[Observation]]]:
    for run in RUNS:
        grid, _ = fit_recorded_runs.read(run)
        yield run, Model(ModelShape.of(fit_recorded_runs.SMOLLM2_135M, 4, 4), UNKNOWN, arms(grid)), grid
    if public is not None:
        grid = fit_public_grid.read(public)
        shape = ModelShape.of(fit_public_grid.QWEN3_235B)
        yield "Qwen3-235B on SGLang", Model(shape, fit_public_grid.HOPPERS, arms(grid)), grid


def worlds(count: int, noise: float) -> Worlds:
    """Truths drawn from the model's own prior, with what its form leaves out, of throughput alone."""
    sizes, rng = (1, 4, 16, 64), np.random.default_rng(SEED)
    points = [Point("w", "none", 0, size, 500.0, 250.0) for size in sizes]
    points += [Point("w", "eagle3", gamma, size, 500.0, 250.0) for gamma in (1, 2, 3, 5, 7) for size in sizes]
    model = Model(ModelShape.of(fit_public_grid.QWEN3_235B), fit_public_grid.HOPPERS, arms_of(points))
    prior, form = model.prior(), np.linalg.cholesky(alike(points, points) + 1e-12 * np.eye(len(points)))
    cells, places, regrets = 0, 0, list[float]()
    for _ in range(count):
        theta = prior.mean + prior.spread * rng.standard_normal(len(prior.mean))
        truth = model.steps(theta, points).tokens_per_second * np.exp(form @ rng.standard_normal(len(points)))
        seen = truth * np.exp(noise * rng.standard_normal(len(points)))
        grid = [Observation(p, float(rate), noise) for p, rate in zip(points, seen, strict=True)]
        taken, _, shown = choose(model, grid)
        cells, places = cells + len(taken), places + len(shown.best)
        regrets += [1 - truth[b.best] / truth[[b.best, *b.ahead]].max() for b in shown.best if b.probability >= LEVEL]
    wrong = [regret for regret in regrets if regret > -np.expm1(-AS_GOOD)]
    return Worlds(
        noise_percent=_percent(noise),
        worlds=count,
        share_percent=_percent(cells / (count * len(points))),
        places=places,
        sure=len(regrets),
        wrong_percent=_percent(len(wrong) / len(regrets)),
        worst_regret_percent=_percent(float(max(regrets))),
    )


def _percent(share: float) -> float:
    return round(100 * share, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--public", type=Path, default=None, help="the grid of fit_public_grid.py")
    parser.add_argument("--worlds", type=int, default=60, help="grids of known truth")
    parser.add_argument("--json", type=Path, default=None)
    arguments = parser.parse_args()
    record = {
        "replays": [asdict(replay(*one, *how)) for one in grids(arguments.public) for how in HOW],
        "known_truth": [asdict(worlds(arguments.worlds, noise)) for noise in NOISES],
    }
    print(json.dumps(record, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
