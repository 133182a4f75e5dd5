"""What an engine has done so far, summed over requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["prefill", "draft", "verify", "accept"]


@dataclass(slots=True)
class Counters:
    """Counts since the engine was made. Steps are counted once per sequence and verification pass.

    steps, drafts: all steps, and those in which the drafter proposed something
    drafted, accepted: tokens proposed; those of them that were emitted
    accepted_at: accepted at draft position k (0-based), length gamma
    generated: tokens emitted, the one that comes out of each prefill included: requests + steps + accepted, less what
               an end inside a draft cut off
    seconds: host time by phase; on a GPU a phase that doesn't read results back ends before its kernels do
    """

    accepted_at: list[int]
    steps: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0
    seconds: dict[Phase, float] = field(default_factory=lambda: {"prefill": 0, "draft": 0, "verify": 0, "accept": 0})

    def count_step(self, drafted: int, accepted: int) -> None:
        self.steps += 1
        self.drafts += drafted > 0
        self.drafted += drafted
        self.accepted += accepted
        for k in range(accepted):
            self.accepted_at[k] += 1

    @contextmanager
    def timed(self, phase: Phase) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - begun
