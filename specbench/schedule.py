"""A schedule of gamma: how many tokens to propose while so many requests are decoded together."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from specbench.decoder.policies import table
from specbench.errors import SpecbenchError

PREFIX = table.PREFIX
"""What a schedule begins with where a gamma may stand: `--gamma 2,4,schedule:1=4+5=2+9=0`."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Gamma by batch size, for an engine that counts its running requests anew at every step.

    steps: (batch size from which on, gamma), the first from 1 on, growing: every batch size has exactly one gamma.
    """

    steps: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        try:
            table.check_steps(self.steps)
        except ValueError as error:
            raise SpecbenchError(str(error)) from None

    @classmethod
    def parse(cls, written: str) -> Schedule:
        """`1=4+5=2+9=0`: gamma 4 from batch size 1 on, 2 from 5 on, off from 9 on. Raises SpecbenchError."""
        try:
            return cls(table.read_steps(written))
        except ValueError as error:
            raise SpecbenchError(str(error)) from None

    @classmethod
    def of(cls, gammas: dict[int, int]) -> Schedule:
        """From a gamma for every batch size from 1 on; larger ones keep the last."""
        ordered = sorted(gammas.items())
        return cls(tuple(b for a, b in pairwise([(0, -1), *ordered]) if a[1] != b[1]))

    @property
    def largest(self) -> int:
        """What an engine must have room for."""
        return max(gamma for _, gamma in self.steps)

    def at(self, batch_size: int) -> int:
        """The gamma while `batch_size` requests run."""
        return table.gamma_at(self.steps, batch_size)

    def ranges(self, last: int) -> list[tuple[int, int, int]]:
        """(first, last, gamma) up to batch size `last`; the final range ends there, or where it begins if later."""
        ends = [start - 1 for start, _ in self.steps[1:]] + [last]
        return [(start, max(start, end), gamma) for (start, gamma), end in zip(self.steps, ends, strict=True)]

    def __str__(self) -> str:
        return table.written_steps(self.steps)
