"""What an engine has done so far, summed over requests."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["prefill", "draft", "prepare", "verify", "accept", "host"]
"""`prepare`: what a second device would do while the first one verifies (drafters that follow `base.Preparing`)."""


@dataclass(slots=True)
class Counters:
    """Counts since the engine was made. Steps are counted once per sequence and verification pass.

    steps, drafts: all steps, and those in which the drafter proposed something
    drafted, accepted: tokens proposed; those of them that were emitted
    accepted_at: accepted at draft position k (0-based), length gamma
    generated: tokens emitted, the one that comes out of each prefill included: requests + steps + accepted, less what
               an end inside a draft cut off
    passes: verification passes, each counted once for all sequences in it
    verify_bytes: read by these passes: the target's weights, and the cache's entries of all sequences
    prepared, ready: drafts that could have been prepared while the target verified; those of them that were
    drafting, late: passes that such drafts were for; those that waited for one that was not ready
    seconds: host time by phase; on a GPU a phase that doesn't read results back ends before its kernels do. `host` is
             the time from a step's results to the next phase, in which the device has nothing to do. Of lagged steps
             (`lagged.py`) by the device's own clock, but for admissions and the wait before the first step after one
    read_bytes_per_s: how fast the device's memory is read; None where that was not measured
    """

    accepted_at: list[int]
    steps: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0
    passes: int = 0
    verify_bytes: int = 0
    prepared: int = 0
    ready: int = 0
    drafting: int = 0
    late: int = 0
    read_bytes_per_s: float | None = None
    seconds: dict[Phase, float] = field(
        default_factory=lambda: {"prefill": 0, "draft": 0, "prepare": 0, "verify": 0, "accept": 0, "host": 0}
    )
    _results_since: float | None = field(default=None, init=False, repr=False)

    def count_step(self, drafted: int, accepted: int) -> None:
        self.steps += 1
        self.drafts += drafted > 0
        self.drafted += drafted
        self.accepted += accepted
        for k in range(accepted):
            self.accepted_at[k] += 1

    def count_pass(self, read_bytes: int) -> None:
        self.passes += 1
        self.verify_bytes += read_bytes

    def count_ready(self, ready: Sequence[bool | None]) -> None:
        self.prepared += sum(found is not None for found in ready)
        self.ready += sum(found is True for found in ready)
        self.drafting += bool(ready)
        self.late += not all(ready)

    def rest(self) -> None:
        """Nothing is left to do: the time until there is belongs to nobody."""
        self._results_since = None

    def idle(self, since: float) -> None:
        """The device has given its results, and waits for the host."""
        self._results_since = since

    def busy(self, since: float) -> None:
        """The device has work again."""
        if self._results_since is not None:
            self.seconds["host"] += since - self._results_since
            self._results_since = None

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        begun = time.perf_counter()
        self.busy(begun)
        try:
            yield
        finally:
            ended = time.perf_counter()
            self.seconds[phase] += ended - begun
            if phase == "accept":
                self.idle(ended)
