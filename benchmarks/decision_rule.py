"""How often specbench's intervals hold the truth and its decision rule errs, over simulated sweeps.

    python benchmarks/decision_rule.py [--series 20000] [--json FILE]

Every launch of a server has noise of its own, and the machine under it drifts: a random walk from launch to launch and
a steady trend. Arms take turns as in a sweep (ABBA). What is counted comes from the functions that reports and the
gate use. Committed as benchmarks/results/decision_rule.json.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from specbench.analysis.decision import LEAST_PAIRS, MARGIN, Judgement, judge_changes, verdict
from specbench.analysis.planner import gate_need
from specbench.analysis.sequential import Looks, always_valid_interval, always_valid_margin
from specbench.analysis.speedup import OverReplicates, Pair, speedup
from specbench.analysis.statistics import Estimate, Interval, paired, replicate_interval, unpaired
from specbench.analysis.throughput import Throughput
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell, Measurement

Logs = NDArray[np.float64]

RESULT = Path(__file__).parent / "results" / "decision_rule.json"
SEED = 20_260
LOSS = 0.05
"""The regression to be found."""
POWER = 0.95


@dataclass(frozen=True)
class World:
    """What makes launches of one server differ, on the log scale.

    noise: standard deviation of one launch;  cell_noise: of one cell's measurement within it, by which cells differ
    step:  of the machine's random walk from one launch to the next;  trend: its steady change per launch
    session: of what sets two runs on different days apart, whichever arm
    """

    noise: float = 0.02
    cell_noise: float = 0.0
    step: float = 0.005
    trend: float = 0.001
    session: float = 0.01

    def spread(self) -> float:
        """s_d: of the log ratio of a pair of neighbouring launches."""
        return math.sqrt(2 * (self.noise**2 + self.cell_noise**2) + self.step**2 + self.trend**2)

    def pairs(self, rng: np.random.Generator, series: int, pairs: int, cells: int = 1, change: float = 0.0) -> Logs:
        """Log throughput [series, pairs, 2 arms, cells]; the second arm differs by `change`."""
        launches = self.step * rng.standard_normal((series, 2 * pairs)).cumsum(1) + self.trend * np.arange(2 * pairs)
        launches += self.noise * rng.standard_normal(launches.shape)
        arms = launches.reshape(series, pairs, 2).copy()
        arms[:, 1::2] = arms[:, 1::2, ::-1]  # ABBA: in odd replicates the second arm goes first
        measured = arms[..., None] + self.cell_noise * rng.standard_normal((series, pairs, 2, cells))
        measured[:, :, 1] += change
        return measured


@dataclass(frozen=True)
class Errors:
    """A/A comparisons that were called a regression."""

    comparison: str
    pairs: str
    cells: int
    series: int
    regressions: int
    per_1000: float
    per_1000_below: float
    """Upper end of its 95 % interval (Clopper-Pearson, one-sided)."""


@dataclass(frozen=True)
class Detection:
    """True losses that were called a regression."""

    loss: float
    noise_per_arm: float
    pairs: str
    cells: int
    series: int
    found: float
    mean_pairs: float


@dataclass(frozen=True)
class Coverage:
    """95 % intervals of a speedup that held it."""

    interval: str
    stopping: str
    sweeps: int
    coverage: float
    mean_replicates: float


def compare(log_ratios: Logs, looks: Looks, margin: float = MARGIN) -> tuple[Mapping[str, Judgement], int]:
    """What the rule says of the cells' log ratios [pairs, cells] and after how many pairs: more only while unsure."""
    size: int | None = looks.sizes[0]
    while size is not None:
        changes = {str(cell): paired(log_ratios[:size, cell].tolist()) for cell in range(log_ratios.shape[1])}
        judged, used = judge_changes(changes, margin, looks.level(size)), size
        if verdict(judged.values()) != "inconclusive":
            break
        size = looks.after(size)
    return judged, used


def false_regressions(world: World, looks: Looks, cells: int, series: int, seed: int) -> Errors:
    """Nothing differs between the arms: how often is one cell or more called a regression?"""
    logs = world.pairs(np.random.default_rng(seed), series, looks.sizes[-1], cells)
    wrong = sum(verdict(compare(d, looks)[0].values()) == "regression" for d in logs[:, :, 1] - logs[:, :, 0])
    return _errors("interleaved, paired", " → ".join(map(str, looks.sizes)), cells, series, wrong)


def false_regressions_of_stored_runs(world: World, figure: str, replicates: int, series: int, seed: int) -> Errors:
    """The same for two runs of different days, which nothing pairs (Welch), by one of two figures.

    figure: throughput, which a day's drift moves; or speedup, which it moves in both arms alike
    """
    rng = np.random.default_rng(seed)
    logs = world.pairs(rng, 2 * series, replicates)[..., 0] + world.session * rng.standard_normal((2 * series, 1, 1))
    runs = logs[:, :, 1] - logs[:, :, 0] if figure == "speedup" else logs[:, :, 1]
    wrong = 0
    for before, after in zip(runs[:series], runs[series:], strict=True):
        change: Estimate = unpaired(before.tolist(), after.tolist())
        wrong += judge_changes({"cell": change})["cell"].outcome == "regression"
    return _errors(f"two stored runs, {figure}", str(replicates), 1, series, wrong)


def detection(world: World, looks: Looks, cells: int, series: int, seed: int) -> Detection:
    """Every cell lost `LOSS`: how often is that seen, and after how many pairs?"""
    logs = world.pairs(np.random.default_rng(seed), series, looks.sizes[-1], cells, math.log1p(-LOSS))
    results = [compare(d, looks) for d in logs[:, :, 1] - logs[:, :, 0]]
    found = sum(verdict(judged.values()) == "regression" for judged, _ in results) / series
    pairs = " → ".join(map(str, looks.sizes))
    return Detection(
        LOSS,
        math.hypot(world.noise, world.cell_noise),
        pairs,
        cells,
        series,
        found,
        sum(used for _, used in results) / series,
    )


Stop = Callable[[Sequence[float], Interval | None], bool]
"""From log ratios so far and their interval to whether to stop looking."""


def coverage(
    world: World, name: str, over: OverReplicates, stopping: str, stop: Stop, least: int, most: int, sweeps: int,
    seed: int, truth: float = 1.25,
) -> Coverage:  # fmt: skip
    """Sweeps whose replicates are added until `stop`, and how often the interval shown then holds the truth."""
    logs = world.pairs(np.random.default_rng(seed), sweeps, most, change=math.log(truth))[..., 0]
    held = taken = 0
    for sweep in logs:
        for replicates in range(least, most + 1):
            interval = _shown(sweep[:replicates], over)
            ratios = (sweep[:replicates, 1] - sweep[:replicates, 0]).tolist()
            if replicates == most or stop(ratios, interval):
                break
        held += interval is None or interval.low <= truth <= interval.high
        taken += replicates
    return Coverage(name, stopping, sweeps, held / sweeps, taken / sweeps)


def _shown(logs: Logs, over: OverReplicates) -> Interval | None:
    """The interval in the report of a sweep with these log throughputs [replicates, 2]."""
    pairs = [_PAIRS[replicate] for replicate in range(len(logs))]
    figures = {
        m.id: Throughput(math.exp(log), None, None)
        for pair, row in zip(pairs, logs.tolist(), strict=True)
        for m, log in zip(pair, row[::-1], strict=True)
    }
    return speedup(pairs, figures, over).interval


def _pair(replicate: int) -> Pair:
    cells = [Cell("simulated", "none", "none", s, 1, 0.0) for s in (Speculation("ngram", 4), BASELINE)]
    speculative, baseline = (
        Measurement(f"{cell.id}-r{replicate}k0", "launch", cell, replicate, 0, "ok", "") for cell in cells
    )
    return speculative, baseline


_PAIRS = [_pair(replicate) for replicate in range(100)]


def _errors(comparison: str, pairs: str, cells: int, series: int, wrong: int) -> Errors:
    below = float(beta.ppf(0.95, wrong + 1, series - wrong))
    return Errors(comparison, pairs, cells, series, wrong, 1e3 * wrong / series, 1e3 * below)


def gate_looks(world: World) -> Looks:
    """The looks that `specbench power --gate` plans for this noise."""
    looks = gate_need(LOSS, MARGIN, world.spread(), POWER).looks
    assert looks is not None
    return Looks(looks)


def run(series: int, sweeps: int) -> dict[str, Any]:
    """All tables."""
    world, quiet, several = World(), World(noise=0.02 / math.sqrt(2)), World(noise=0.014, cell_noise=0.014)
    looks = gate_looks(world)
    fixed = [Looks((pairs,)) for pairs in (2, LEAST_PAIRS, 16, 28)]
    errors = [false_regressions(world, plan, 1, series, SEED + i) for i, plan in enumerate((*fixed, looks))]
    errors += [false_regressions(several, plan, 4, series // 4, SEED + 10) for plan in (fixed[1], looks)]
    errors += [
        false_regressions_of_stored_runs(world, figure, pairs, series, SEED + 20)
        for figure in ("throughput", "speedup")
        for pairs in (LEAST_PAIRS, 10)
    ]
    found = [
        detection(quiet, Looks((16,)), 1, series, SEED + 30),
        detection(world, Looks((28,)), 1, series, SEED + 31),
        detection(world, Looks((looks.sizes[-1],)), 1, series, SEED + 32),
        detection(world, looks, 1, series, SEED + 33),
        detection(several, looks, 4, series // 4, SEED + 34),
    ]
    return {
        "made_by": "benchmarks/decision_rule.py",
        "world": {**asdict(world), "spread": world.spread(), "margin": MARGIN, "seed": SEED},
        "false_regressions": [asdict(e) for e in errors],
        "detection": [asdict(d) for d in found],
        "coverage": [asdict(c) for c in coverages(world, looks, sweeps)],
    }


def coverages(world: World, looks: Looks, sweeps: int) -> list[Coverage]:
    """Fixed numbers of replicates, and three ways to go on: until precise, until it suits, and the gate's looks."""
    known = math.log1p(0.03)

    def precise(ratios: Sequence[float], _: Interval | None) -> bool:
        return always_valid_margin(ratios) <= known

    def precise_t(ratios: Sequence[float], _: Interval | None) -> bool:
        return paired(ratios).margin() <= known

    def suits(_: Sequence[float], interval: Interval | None) -> bool:
        """Nothing gains in truth, and the one who looks stops as soon as something is shown to."""
        return interval is not None and not interval.low <= 1 <= interval.high

    def at_look(ratios: Sequence[float]) -> Interval | None:
        if len(ratios) not in looks.sizes:
            return None
        estimate = paired(ratios)
        margin = estimate.margin(looks.level(len(ratios)))
        return Interval(math.exp(estimate.mean - margin), math.exp(estimate.mean + margin), "replicates")

    def never(*_: object) -> bool:
        return False

    t, valid = ("replicates (t)", replicate_interval), ("always-valid", always_valid_interval)
    rows = [coverage(world, *t, f"{n} replicates", never, n, n, sweeps, SEED + 40 + n) for n in (2, 3, LEAST_PAIRS, 10)]
    until, peek = "until it is ±3 %, from 3 to 20", "as soon as it leaves 1 out, from 3 to 20 (truth 1)"
    rows += [
        coverage(world, *valid, until, precise, 3, 20, sweeps, SEED + 60),
        coverage(world, *valid, peek, suits, 3, 20, sweeps, SEED + 61, truth=1.0),
        coverage(world, *t, until, precise_t, 3, 20, sweeps, SEED + 60),
        coverage(world, *t, peek, suits, 3, 20, sweeps, SEED + 61, truth=1.0),
    ]
    spent = f"as soon as it leaves 1 out, looking at {' → '.join(map(str, looks.sizes))} (truth 1)"
    rows.append(
        coverage(
            world, "t, level spent over looks", at_look, spent, suits, looks.sizes[0], looks.sizes[-1], sweeps,
            SEED + 62, truth=1.0,
        )
    )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Error rates and coverage of specbench's statistics, simulated.")
    parser.add_argument("--series", type=int, default=20_000, help="comparisons per row; sweeps are a quarter of that")
    parser.add_argument("--json", type=Path, default=RESULT, help="write the tables there")
    arguments = parser.parse_args()
    result = run(arguments.series, arguments.series // 4)
    for name in ("false_regressions", "detection", "coverage"):
        print(f"# {name}", "\t".join(result[name][0]), sep="\n")
        for row in result[name]:
            print("\t".join(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    arguments.json.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
