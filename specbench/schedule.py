"""A schedule of gamma: how many tokens to propose while so many requests are decoded together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from specbench.errors import SpecbenchError

PREFIX = "schedule:"
"""What a schedule begins with where a gamma may stand: `--gamma 2,4,schedule:1=4+5=2+9=0`."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Gamma by batch size, for an engine that counts its running requests anew at every step.

    steps: (batch size from which on, gamma), the first from 1 on, growing: every batch size has exactly one gamma.
    """

    steps: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        starts = [start for start, _ in self.steps]
        if not starts or starts[0] != 1 or any(a >= b for a, b in pairwise(starts)):
            raise SpecbenchError(f"a schedule begins at batch size 1 and goes up; got {self}.")
        if any(gamma < 0 for _, gamma in self.steps) or self.largest == 0:
            raise SpecbenchError(f"a schedule needs one gamma above 0, and none below; got {self}.")

    @classmethod
    def parse(cls, written: str) -> Schedule:
        """`1=4+5=2+9=0`: gamma 4 from batch size 1 on, 2 from 5 on, off from 9 on. Raises SpecbenchError."""
        text = written.removeprefix(PREFIX)
        if not re.fullmatch(r"\d{1,6}=\d{1,3}(\+\d{1,6}=\d{1,3})*", text):
            raise SpecbenchError(
                f"expected a schedule such as {PREFIX}1=4+5=2+9=0 (gamma 4 from batch size 1 on, 2 from 5 on, off from "
                f"9 on); got {written!r}."
            )
        pairs = (part.split("=") for part in text.split("+"))
        return cls(tuple((int(start), int(gamma)) for start, gamma in pairs))

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
        return [gamma for start, gamma in self.steps if start <= max(batch_size, 1)][-1]

    def ranges(self, last: int) -> list[tuple[int, int, int]]:
        """(first, last, gamma) up to batch size `last`; the final range ends there, or where it begins if later."""
        ends = [start - 1 for start, _ in self.steps[1:]] + [last]
        return [(start, max(start, end), gamma) for (start, gamma), end in zip(self.steps, ends, strict=True)]

    def __str__(self) -> str:
        return "+".join(f"{start}={gamma}" for start, gamma in self.steps)
