"""A whole sweep that chooses its cells, on an engine of known step times that stands in for servers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import known_run
import pytest

from specbench.analysis.summary import summarize
from specbench.backends import get_backend
from specbench.planning.from_sweep import chooser, start_cells
from specbench.speculation import Speculation
from specbench.store.run import EARLY_STOP, RunStore
from specbench.sweep import early
from specbench.sweep.config import SweepConfig
from specbench.sweep.early import run_until_confident
from specbench.sweep.plan import make_plan
from specbench.sweep.progress import Silent
from specbench.sweep.runner import Sweep
from specbench.workloads.prompt import Prompt, Workload


class Killed(Exception):
    """In the place of a signal."""


PROMPTS = tuple(Prompt(f"p{i:03}", prompt="x" * 80) for i in range(8))
WORKLOAD = Workload("chat", Path("chat.jsonl"), PROMPTS, "00")


def step(speculation: Speculation, batch_size: int) -> float:
    """Seconds of a step: weights, and something for every token in it."""
    return 0.01 + 0.0004 * batch_size * (1 + speculation.gamma)


@dataclass
class Engine:
    """Keeps one drafted token per step. launched: ids;  fails: arms that never start;  dies_after: so many launches"""

    launched: list[str] = field(default_factory=list)
    fails: tuple[str, ...] = ()
    dies_after: int = 10**6

    async def run_sweep(self, sweep: Sweep, progress: Any) -> None:
        for launch in sweep.plan.launches:
            if len(self.launched) == self.dies_after:
                raise Killed
            self.launched.append(launch.id)
            lost = launch.speculation.label in self.fails
            if not lost:
                told = {"engine": "e", "version": "1", "raw": {}, "start_seconds": 4.0}
                sweep.store.write_json(f"launches/{launch.id}.json", told)
            for m in launch.measurements:
                place = {
                    "id": m.id, "cell": m.cell, "launch": launch.id,
                    "started_at": f"2030-01-01T00:{len(sweep.store.measurements()):02}",
                }  # fmt: skip
                size, seconds = m.cell.batch_size, step(launch.speculation, m.cell.batch_size)
                sweep.store.write(
                    known_run.failed(launch.speculation, size, **place)
                    if lost
                    else known_run.measurement(
                        launch.speculation, size, requests=8 * size, steps=(seconds,), prefill=0.02,
                        accepted=min(1, launch.speculation.gamma), **place,
                    )
                )  # fmt: skip


def sweep(path: Path, **options: Any) -> Sweep:
    config = SweepConfig(
        **{
            "workload": (Path("chat.jsonl"),), "target": "none", "gamma": (1, 3, 5), "batch_size": (1, 4, 16),
            "replicates": 1, "max_tokens": 41, "until_confident": True, **options,
        }
    )  # fmt: skip
    store = RunStore.open(path) if path.exists() else known_run.store(path, [], target="none")
    return Sweep(config, make_plan(config), get_backend("reference"), Path("t"), {}, {"chat": WORKLOAD}, store, None)  # type: ignore[arg-type]


async def run(made: Sweep, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "run_sweep", engine.run_sweep)
    await run_until_confident(made, Silent(), chooser(made))


async def test_it_settles_on_the_true_arm_and_predicts_what_it_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, engine = sweep(tmp_path / "run"), Engine()
    await run(made, engine, monkeypatch)
    summary = summarize(made.store)
    told = summary.early_stop
    assert told is not None
    assert told.why == "settled"
    assert (told.measured_cells, told.grid_cells) == (len(summary.cells), 12)
    assert len(told.predicted) == 12 - len(summary.cells) >= 1
    assert [(b["batch_size"], b["method"], b["gamma"]) for b in told.best] == [(s, "ngram", 1) for s in (1, 4, 16)]
    for c in told.predicted:
        if c.gamma:
            arm, plain = Speculation("ngram", c.gamma), Speculation()
            true = [0.02 + 40 / 2 * step(arm, c.batch_size), 0.02 + 40 * step(plain, c.batch_size)]
            assert c.speedup == pytest.approx(true[1] / true[0], rel=0.15)
    start = start_cells(made.plan)
    assert {m.cell for m in made.store.measurements()[: len(start)]} == set(start)


async def test_an_interrupted_run_ends_with_the_same_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sweep(tmp_path / "whole")
    await run(whole, Engine(), monkeypatch)
    killed = sweep(tmp_path / "killed")
    with pytest.raises(Killed):
        await run(killed, Engine(dies_after=3), monkeypatch)
    await run(sweep(tmp_path / "killed"), Engine(), monkeypatch)
    ids = [[m.id for m in made.store.measurements()] for made in (whole, killed)]
    assert ids[0] == ids[1]
    assert whole.store.read_json(EARLY_STOP) == killed.store.read_json(EARLY_STOP)


async def test_an_arm_that_does_not_start_is_tried_once_and_never_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, engine = sweep(tmp_path / "run"), Engine(fails=("ngram-g1",))
    await run(made, engine, monkeypatch)
    assert engine.launched.count("ngram-g1-r0") == 1
    told = made.store.read_json(EARLY_STOP)
    assert {b["gamma"] for b in told["best"]} <= {0, 3, 5}
    assert not any(row["gamma"] == 1 for row in told["predicted"])


async def test_where_nothing_can_be_measured_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = sweep(tmp_path / "run")
    engine = Engine(fails=tuple(s.label for s in made.config.speculations()))
    await run(made, engine, monkeypatch)
    assert sorted(engine.launched) == sorted({launch.id for launch in made.plan.launches})
    assert made.store.read_json(EARLY_STOP) is None


@pytest.mark.parametrize("budget", ["50%", "40s"])
async def test_a_budget_ends_it(budget: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a grid whose whole takes some 16 s in 4 starts and as much again in cells."""
    made, engine = sweep(tmp_path / "run", budget=budget, confidence=0.9999), Engine()
    await run(made, engine, monkeypatch)
    assert made.store.read_json(EARLY_STOP)["why"] in ("budget", "settled")
    assert 1 <= len(made.store.measurements()) < 12
