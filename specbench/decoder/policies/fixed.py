"""The same gamma for everybody, whatever comes."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from specbench.decoder.policies.base import Step


class FixedGamma:
    stop_below: float | None = None

    def __init__(self, gamma: int) -> None:
        self.largest = gamma

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        return [self.largest] * len(sessions)

    def observe(self, step: Step) -> None:
        pass

    def forget(self, session: Hashable) -> None:
        pass

    def __str__(self) -> str:
        return str(self.largest)
