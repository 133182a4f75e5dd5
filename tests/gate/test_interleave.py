"""Two configurations in one session: whose turn it is, when it looks, and when it stops."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from known_gate import stored
from known_run import NGRAM, measurement

from specbench.analysis.sequential import Looks
from specbench.errors import SpecbenchError
from specbench.gate import interleave
from specbench.gate.interleave import Session, prepare_session, run_interleaved, turns
from specbench.gate.rules import Rules
from specbench.speculation import BASELINE
from specbench.store.run import RunStore
from specbench.sweep.config import SweepConfig
from specbench.sweep.plan import PlannedLaunch, SweepPlan, make_plan
from specbench.sweep.progress import Silent
from specbench.sweep.runner import Sweep

THROUGHPUT = Rules(metrics=("output_tokens_per_s",), paired=True)


def sweep(path: Path, **options: Any) -> Sweep:
    config = SweepConfig(workload=(Path("chat.jsonl"),), gamma=(4,), batch_size=(1,), **options)
    return Sweep(config, make_plan(config), None, Path("t"), {}, {}, stored(path, []), None)  # type: ignore[arg-type]


class Told(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def plan(self, plan: SweepPlan, done: int) -> None:
        self.lines.append(f"{len(plan.launches)} launches")

    def launch(self, launch: PlannedLaunch, number: int) -> None:
        self.lines.append(f"{number}: {launch.id}")

    def note(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class Machine:
    """Stands in for servers: measures at once, with steps of B slower by a factor and a known wobble by replicate."""

    slower: float = 1.0
    wobble: float = 0.005

    async def run_sweep(self, sweep: Sweep, progress: Any) -> None:
        (launch,) = sweep.plan.launches
        progress.plan(sweep.plan, 0)
        progress.launch(launch, 1)
        side_b = sweep.store.path.name == "b"
        for planned in launch.measurements:
            drift = self.wobble * (-1) ** planned.replicate * (1 + 0.1 * planned.replicate) * side_b
            step = (0.01 if launch.speculation == BASELINE else 0.012) * math.exp(drift)
            step *= self.slower if side_b else 1.0
            sweep.store.write(
                measurement(launch.speculation, 1, replicate=planned.replicate, steps=(step,), prefill=0.0, accepted=1)
            )


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """Two sweeps on a machine of known speed."""

    async def no_margins(*_: Any) -> None: ...

    def make(machine: Machine, cap: int = 20) -> Session:
        monkeypatch.setattr(interleave, "run_sweep", machine.run_sweep)
        monkeypatch.setattr(interleave, "probe_margins", no_margins)
        return Session(tmp_path, sweep(tmp_path / "a"), sweep(tmp_path / "b"), Looks.planned(5, cap))

    return make


def test_launches_of_both_sides_alternate_and_the_next_replicate_goes_backwards(tmp_path: Path) -> None:
    a, b = sweep(tmp_path / "a"), sweep(tmp_path / "b", method=("ngram", "suffix"))
    order = [[f"{turn.side} {turn.launch.id}" for turn in turns(a, b, replicate)] for replicate in (0, 1)]
    assert order == [
        ["A none-r0", "B none-r0", "A ngram-g4-r0", "B ngram-g4-r0", "B suffix-g4-r0"],
        ["B suffix-g4-r1", "A ngram-g4-r1", "B ngram-g4-r1", "A none-r1", "B none-r1"],
    ]


async def test_a_clear_loss_ends_it_at_the_first_look(session: Callable[..., Session]) -> None:
    made, told = session(Machine(slower=1.2)), Told()
    result = await run_interleaved(made, THROUGHPUT, told)
    assert result.verdict == "FAIL"
    assert {f.replicates for f in result.findings} == {(5, 5)}
    assert told.lines[:3] == ["20 launches", "1: A none-r0", "2: B none-r0"]
    assert told.lines[-1] == "After 5 pairs: FAIL."
    assert [f.change for f in result.findings] == pytest.approx([1 / 1.2] * 2, abs=0.01)


async def test_two_that_are_the_same_pass_at_the_first_look(session: Callable[..., Session]) -> None:
    result = await run_interleaved(session(Machine()), THROUGHPUT, Silent())
    assert result.verdict == "PASS"
    assert {f.replicates for f in result.findings} == {(5, 5)}


async def test_while_it_is_unclear_it_measures_on_to_the_cap_at_the_level_of_each_look(
    session: Callable[..., Session],
) -> None:
    made, told = session(Machine(slower=1 / 0.97, wobble=0.03)), Told()
    result = await run_interleaved(made, THROUGHPUT, told)
    assert result.verdict == "INCONCLUSIVE"
    assert {f.replicates for f in result.findings} == {(20, 20)}
    assert [line for line in told.lines if line.startswith("After")] == [
        f"After {pairs} pairs: INCONCLUSIVE." for pairs in (5, 10, 20)
    ]
    assert result.level == pytest.approx(1 - 0.05 * 10 / 20)  # the last look's share of 5 %
    assert RunStore.open(made.path / "a").measurements()[0].cell.speculation in (BASELINE, NGRAM)


def test_fewer_pairs_than_a_gate_can_judge_by_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="a gate needs 5 pairs at least; got 4"):
        prepare_session((tmp_path / "a.yaml", tmp_path / "b.yaml"), None, 4, lambda _: None)
