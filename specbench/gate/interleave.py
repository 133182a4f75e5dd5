"""Two configurations in one session: launches in turns, looks at what they show, no more pairs than it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import zip_longest
from pathlib import Path

from specbench.analysis.decision import LEAST_PAIRS
from specbench.analysis.sequential import Looks
from specbench.comparison.from_run import snapshot, unmeasured
from specbench.errors import SpecbenchError
from specbench.gate.judge import judge
from specbench.gate.refusal import refuse_unlike
from specbench.gate.result import GateResult
from specbench.gate.rules import Rules
from specbench.sweep.config_file import load_config
from specbench.sweep.margins import probe_margins
from specbench.sweep.plan import PlannedLaunch, PlannedMeasurement, SweepPlan, make_plan
from specbench.sweep.prepare import check, prepare
from specbench.sweep.progress import Progress
from specbench.sweep.runner import Sweep, run_sweep


@dataclass(frozen=True, slots=True)
class Session:
    """Two prepared sweeps, A the baseline and B the candidate, and when to look at them."""

    path: Path
    a: Sweep
    b: Sweep
    looks: Looks

    @contextmanager
    def locked(self) -> Iterator[None]:
        with self.a.store.locked(), self.b.store.locked():
            yield


@dataclass(frozen=True, slots=True)
class Turn:
    """One launch of one side."""

    side: str
    sweep: Sweep
    launch: PlannedLaunch


def prepare_session(
    configs: tuple[Path, Path], output: Path | None, max_replicates: int, note: Callable[[str], None]
) -> Session:
    """Check both configurations and create their runs, `a-NAME` and `b-NAME`, under `output`.

    How many replicates they have is for the gate to say. Raises SpecbenchError for too few of them, and for two sides
    that would not get the same requests.
    """
    if max_replicates < LEAST_PAIRS:
        raise SpecbenchError(f"--max-replicates: a gate needs {LEAST_PAIRS} pairs at least; got {max_replicates}.")
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    path = output or Path("reports") / f"{stamp}-gate"
    ours = {"replicates": LEAST_PAIRS, "until_ci": None}
    loaded = [(f"{side}-{file.stem}", load_config(file, ours)) for side, file in zip("ab", configs, strict=True)]
    for name, config in loaded:
        check(config, path / name, resume=False)
    a, b = (prepare(config, path / name, resume=False, note=note) for name, config in loaded)
    refuse_unlike(unmeasured(a.store), unmeasured(b.store), same_session=True)
    return Session(path, a, b, Looks.planned(LEAST_PAIRS, max_replicates))


def turns(a: Sweep, b: Sweep, replicate: int) -> list[Turn]:
    """A replicate's launches of both sides, alternating; the next replicate's go the other way round (ABBA).

    What drifts slowly then cancels in the ratio of two sides, as it does in that of two arms.
    """
    sides = (("A", a), ("B", b))
    both = [[Turn(name, sweep, launch) for launch in _launches(sweep, replicate)] for name, sweep in sides]
    if replicate % 2:
        both.reverse()
    return [turn for pair in zip_longest(*both) for turn in pair if turn is not None]


async def run_interleaved(session: Session, rules: Rules, progress: Progress) -> GateResult:
    """Measure pairs until the verdict is clear or the last look is taken, then ask how near to ties outputs were."""
    a, b, looks = session.a, session.b, session.looks
    watch, measured, level = _BothSides(progress), 0, rules.level
    for size in looks.sizes:
        ahead = [turn for replicate in range(measured, size) for turn in turns(a, b, replicate)]
        progress.plan(SweepPlan(tuple(turn.launch for turn in ahead)), 0)
        for number, turn in enumerate(ahead, start=1):
            watch.turn, watch.number = turn, number
            await run_sweep(replace(turn.sweep, plan=SweepPlan((turn.launch,))), watch)
        measured = size
        level = looks.level(size, rules.level)
        result = judge(snapshot(a.store), snapshot(b.store), replace(rules, level=level, require_equivalence=False))
        progress.note(f"After {size} pairs: {result.verdict}.")
        if not result.wants_more:
            break
    for sweep in (a, b):
        await probe_margins(sweep, progress)
        sweep.store.compact()
    return judge(snapshot(a.store), snapshot(b.store), replace(rules, level=level))


def _launches(sweep: Sweep, replicate: int) -> list[PlannedLaunch]:
    plan = make_plan(sweep.config.model_copy(update={"replicates": replicate + 1}))
    return [launch for launch in plan.launches if launch.measurements[0].replicate == replicate]


class _BothSides:
    """Tells a watcher of both sides as if they were one sweep, with the side's letter before each launch."""

    def __init__(self, progress: Progress) -> None:
        self._to = progress
        self.turn: Turn | None = None
        self.number = 0

    def plan(self, plan: SweepPlan, done: int) -> None:
        """Of one launch: the look's own plan has been told."""

    def launch(self, launch: PlannedLaunch, number: int) -> None:
        self._to.launch(self._named(launch), self.number)

    def ready(self, launch: PlannedLaunch, seconds: float) -> None:
        self._to.ready(self._named(launch), seconds)

    def measure(self, measurement: PlannedMeasurement, requests: int) -> None:
        self._to.measure(measurement, requests)

    def tokens(self, requests_done: int, output_tokens: int, steps: int, accepted: int) -> None:
        self._to.tokens(requests_done, output_tokens, steps, accepted)

    def measured(self, measurement: PlannedMeasurement, error: str | None) -> None:
        self._to.measured(measurement, error)

    def note(self, text: str) -> None:
        self._to.note(text)

    def _named(self, launch: PlannedLaunch) -> PlannedLaunch:
        return replace(launch, id=f"{self.turn.side} {launch.id}") if self.turn else launch
