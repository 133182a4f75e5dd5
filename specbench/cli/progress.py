"""Live progress of a sweep on stderr: a rich display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from specbench.sweep import progress as watching
from specbench.sweep.attach_options import ATTACH
from specbench.sweep.plan import PlannedLaunch, PlannedMeasurement, SweepPlan
from specbench.sweep.preflight import duration


class SweepProgress(watching.Progress, Protocol):
    """A watcher with a display that begins and ends."""

    def __enter__(self) -> SweepProgress: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def make_progress(*, quiet: bool) -> SweepProgress:
    """The watcher that fits where stderr goes."""
    if quiet:
        return _Quiet()
    console = Console(stderr=True)
    return _Live(console) if console.is_terminal else _Lines(console)


class _Quiet(watching.Silent):
    def __enter__(self) -> _Quiet:
        return self

    def __exit__(self, *_: object) -> None: ...


class _Lines(_Quiet):
    """One line per event, for logs and CI."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.done = self.failed = self.total = self.kept = 0
        self.begun = 0.0
        self.launches = 0
        self.attached = False
        self.cell_started = 0.0
        self.rate = ""

    def print(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def plan(self, plan: SweepPlan, done: int) -> None:
        self.total, self.done, self.launches = len(plan.measurements), done, len(plan.launches)
        self.begun, self.kept = time.perf_counter(), done
        kept = f", {done} of them already done" if done else ""
        self.attached = any(m.cell.backend == ATTACH for m in plan.measurements)
        where = f"in {self.launches} turns" if self.attached else f"on {self.launches} server starts"
        self.print(f"{self.total} measurements {where}{kept}.")

    def launch(self, launch: PlannedLaunch, number: int) -> None:
        doing = "turn of" if self.attached else "starting"
        self.print(f"[{number}/{self.launches}] {doing} {launch.id} …{self.left()}")

    def left(self) -> str:
        """How long the rest takes if it goes on like the measurements so far, server starts included."""
        done = self.done - self.kept
        if not done:
            return ""
        each = (time.perf_counter() - self.begun) / done
        return f" (about {duration(each * (self.total - self.done))} left)"

    def ready(self, launch: PlannedLaunch, seconds: float) -> None:
        self.print(f"  {launch.id} ready after {seconds:.1f} s")

    def measure(self, measurement: PlannedMeasurement, requests: int) -> None:
        self.cell_started, self.rate = time.perf_counter(), ""

    def tokens(self, requests_done: int, output_tokens: int, steps: int, accepted: int) -> None:
        elapsed = time.perf_counter() - self.cell_started
        acceptance = f", {1 + accepted / steps:.2f} tokens/step" if steps else ""
        self.rate = f"{output_tokens / elapsed:.1f} tok/s of the whole run{acceptance}"

    def measured(self, measurement: PlannedMeasurement, error: str | None) -> None:
        self.done += 1
        self.failed += error is not None
        outcome = f"FAILED: {error}" if error else self.rate
        self.print(f"  {self.done}/{self.total} {measurement.id}: {outcome}")

    def note(self, text: str) -> None:
        self.print(text)


class _Live(_Lines):
    """Lines for what is finished, and one bar for what runs: cells done and failed, rate, acceptance, time left."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[now]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            transient=True,
        )
        self.task = self.bar.add_task("sweep", total=None, now="")
        self.requests = 0

    def __enter__(self) -> _Live:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def plan(self, plan: SweepPlan, done: int) -> None:
        super().plan(plan, done)
        self.bar.update(self.task, total=self.total, completed=done)

    def measure(self, measurement: PlannedMeasurement, requests: int) -> None:
        super().measure(measurement, requests)
        self.requests = requests
        self.bar.update(self.task, description=measurement.id, now="")

    def tokens(self, requests_done: int, output_tokens: int, steps: int, accepted: int) -> None:
        super().tokens(requests_done, output_tokens, steps, accepted)
        failed = f" · {self.failed} failed" if self.failed else ""
        self.bar.update(
            self.task,
            completed=self.done + requests_done / self.requests,
            now=f"{requests_done}/{self.requests} requests · {self.rate}{failed}",
        )

    def measured(self, measurement: PlannedMeasurement, error: str | None) -> None:
        super().measured(measurement, error)
        self.bar.update(self.task, completed=self.done)
