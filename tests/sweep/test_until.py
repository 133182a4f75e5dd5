"""Replicates until a speedup is known: how far it goes on, in which order, and after an interruption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.sweep import runner, until
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import PlannedLaunch, PlannedMeasurement, SweepPlan, make_plan
from specbench.sweep.progress import Silent
from specbench.sweep.runner import Sweep
from specbench.sweep.until import run_until_known


class Told(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of launches, in the order in which they were measured; stands in for servers."""
    order: list[str] = []

    async def run_sweep(sweep: Sweep, progress: Any) -> None:
        done = {m.id for m in sweep.store.measurements()}
        for launch in sweep.plan.launches:
            for m in launch.measurements:
                if m.id not in done:
                    order.append(launch.id)
                    at = f"2030-01-01T00:00:{len(order):02}"
                    sweep.store.write(Measurement(m.id, launch.id, m.cell, m.replicate, m.repeat, "ok", at))

    monkeypatch.setattr(until, "run_sweep", run_sweep)
    return order


def sweep(path: Path, **options: Any) -> Sweep:
    config = SweepConfig(**{"workload": (Path("w.jsonl"),), "gamma": (4,), "batch_size": (1,), **options})
    store = RunStore.create(path, {"config": {}}) if not path.exists() else RunStore.open(path)
    return Sweep(config, make_plan(config), None, Path("t"), {}, {}, store, None)  # type: ignore[arg-type]


def known_after(replicates: int):  # type: ignore[no-untyped-def]
    """±3 % from so many replicates on, ±10 % before."""

    def half_widths(measurements: Sequence[Measurement]) -> dict[str, float]:
        return {"w-ngram-g4-b1": 0.03 if max(m.replicate for m in measurements) + 1 >= replicates else 0.1}

    return half_widths


async def test_it_goes_on_in_abba_order_until_the_speedup_is_known(tmp_path: Path, launched: list[str]) -> None:
    told = Told()
    await run_until_known(sweep(tmp_path / "run", replicates=2, until_ci=0.03), told, known_after(4))
    assert launched == [
        *("none-r0", "ngram-g4-r0", "ngram-g4-r1", "none-r1"),
        *("none-r2", "ngram-g4-r2", "ngram-g4-r3", "none-r3"),
    ]
    assert told.notes == [
        "after 2 replicates 1 of 1 speedups are not known to ±3.0%; the widest is w-ngram-g4-b1: ±10.0%.",
        "after 3 replicates 1 of 1 speedups are not known to ±3.0%; the widest is w-ngram-g4-b1: ±10.0%.",
        "after 4 replicates every speedup is known to ±3.0%.",
    ]


async def test_it_ends_at_the_cap(tmp_path: Path, launched: list[str]) -> None:
    config = {"replicates": 2, "until_ci": 0.03, "max_replicates": 3}
    await run_until_known(sweep(tmp_path / "run", **config), Silent(), known_after(99))
    assert [name.rpartition("-r")[2] for name in launched] == ["0", "0", "1", "1", "2", "2"]


async def test_without_it_the_plan_is_all(tmp_path: Path, launched: list[str]) -> None:
    await run_until_known(sweep(tmp_path / "run", replicates=1), Silent(), known_after(99))
    assert launched == ["none-r0", "ngram-g4-r0"]


async def test_an_interrupted_run_ends_with_the_same_measurements(tmp_path: Path, launched: list[str]) -> None:
    """Killed in the middle of an added replicate: that one is completed, then it looks and goes on."""
    options = {"replicates": 1, "until_ci": 0.03}
    whole = sweep(tmp_path / "whole", **options)
    await run_until_known(whole, Silent(), known_after(4))
    killed = sweep(tmp_path / "killed", **options)
    for m in whole.store.measurements()[:5]:
        killed.store.write(m)
    launched.clear()
    await run_until_known(sweep(tmp_path / "killed", **options), Silent(), known_after(4))
    assert launched == [m.launch for m in whole.store.measurements()[5:]]
    assert {m.id for m in killed.store.measurements()} == {m.id for m in whole.store.measurements()}


async def test_what_always_fails_is_not_started_again_in_every_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def run_launch(sweep: Sweep, launch: PlannedLaunch, pending: list[PlannedMeasurement], progress: Any) -> None:
        started.append(launch.id)
        fails = launch.speculation.gamma == 8
        for m in pending:
            sweep.store.write(
                Measurement(
                    m.id, launch.id, m.cell, m.replicate, m.repeat,
                    status="failed" if fails else "ok", started_at="2030-01-01T00:00:00", error="no" if fails else None,
                )
            )  # fmt: skip

    monkeypatch.setattr(runner, "_run_launch", run_launch)
    told = Told()
    made = sweep(tmp_path / "run", replicates=2, until_ci=0.03, gamma=(4, 8))
    await run_until_known(made, told, known_after(5))
    assert sorted(name for name in started if "g8" in name) == ["ngram-g8-r0", "ngram-g8-r1"]
    assert sum("none" in name for name in started) == 5
    assert told.notes[-1] == "after 5 replicates every speedup is known to ±3.0%; 1 cells failed in every replicate."


async def test_where_no_cell_has_a_speedup_it_does_not_go_on(tmp_path: Path, launched: list[str]) -> None:
    told = Told()
    await run_until_known(sweep(tmp_path / "run", replicates=1, until_ci=0.03), told, lambda _: {})
    assert told.notes == ["no cell has a speedup, so more replicates would tell nothing."]
    assert len(launched) == 2


def test_a_plan_of_one_more_replicate_only_adds_to_it() -> None:
    config = SweepConfig(workload=(Path("w.jsonl"),), replicates=3)
    more = make_plan(config.model_copy(update={"replicates": 4}))
    assert SweepPlan(more.launches[: len(make_plan(config).launches)]) == make_plan(config)
    assert replace(more, launches=more.launches[6:]) == more.without({m.id for m in make_plan(config).measurements})
