"""What a running sweep tells whoever watches. Implementations stand in `cli`; the runner never prints."""

from __future__ import annotations

from typing import Protocol

from specbench.sweep.plan import PlannedLaunch, PlannedMeasurement, SweepPlan


class Progress(Protocol):
    """Calls come in this order, per launch and per measurement; all times and rates are the watcher's to derive."""

    def plan(self, plan: SweepPlan, done: int) -> None:
        """The sweep begins; `done` measurements are already there from an earlier, interrupted run."""

    def launch(self, launch: PlannedLaunch, number: int) -> None: ...

    def ready(self, launch: PlannedLaunch, seconds: float) -> None: ...

    def measure(self, measurement: PlannedMeasurement, requests: int) -> None: ...

    def tokens(self, requests_done: int, output_tokens: int, steps: int, accepted: int) -> None:
        """Totals since `measure`, after each finished request; steps and accepted are 0 where not reported."""

    def measured(self, measurement: PlannedMeasurement, error: str | None) -> None: ...

    def note(self, text: str) -> None: ...


class Silent:
    """Tells nothing."""

    def plan(self, plan: SweepPlan, done: int) -> None: ...

    def launch(self, launch: PlannedLaunch, number: int) -> None: ...

    def ready(self, launch: PlannedLaunch, seconds: float) -> None: ...

    def measure(self, measurement: PlannedMeasurement, requests: int) -> None: ...

    def tokens(self, requests_done: int, output_tokens: int, steps: int, accepted: int) -> None: ...

    def measured(self, measurement: PlannedMeasurement, error: str | None) -> None: ...

    def note(self, text: str) -> None: ...
