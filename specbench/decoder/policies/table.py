"""A schedule: gamma by the batch size, and how it is written."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from itertools import pairwise

from specbench.decoder.policies.fixed import FixedGamma

PREFIX = "schedule:"
"""What a table by batch size begins with where a gamma may stand."""

Steps = tuple[tuple[int, int], ...]
"""(batch size from which on, gamma), the first from 1 on, growing."""


class GammaTable(FixedGamma):
    """Gamma by the number of sessions in the step. Raises ValueError for steps that `check_steps` refuses."""

    def __init__(self, steps: Steps) -> None:
        check_steps(steps)
        self._steps = steps
        super().__init__(max(gamma for _, gamma in steps))

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        return [gamma_at(self._steps, len(sessions))] * len(sessions)

    def __str__(self) -> str:
        return PREFIX + written_steps(self._steps)


def read_steps(written: str) -> Steps:
    """`schedule:1=4+5=2+9=0`: 4 from batch size 1 on, 2 from 5 on, none from 9 on. Raises ValueError."""
    text = written.removeprefix(PREFIX)
    if not re.fullmatch(r"[0-9]{1,6}=[0-9]{1,3}(\+[0-9]{1,6}=[0-9]{1,3})*", text):
        raise ValueError(
            f"expected a schedule such as {PREFIX}1=4+5=2+9=0 (gamma 4 from batch size 1 on, 2 from 5 on, off from "
            f"9 on); got {written!r}."
        )
    steps = tuple((int(start), int(gamma)) for start, _, gamma in (part.partition("=") for part in text.split("+")))
    check_steps(steps)
    return steps


def check_steps(steps: Steps) -> None:
    """Raises ValueError where a batch size has no gamma, or two, or where none is above 0."""
    starts = [start for start, _ in steps]
    if not starts or starts[0] != 1 or any(a >= b for a, b in pairwise(starts)):
        raise ValueError(f"a schedule begins at batch size 1 and goes up; got {written_steps(steps)}.")
    if any(gamma < 0 for _, gamma in steps) or not any(gamma for _, gamma in steps):
        raise ValueError(f"a schedule needs one gamma above 0, and none below; got {written_steps(steps)}.")


def gamma_at(steps: Steps, batch_size: int) -> int:
    return [gamma for start, gamma in steps if start <= max(batch_size, 1)][-1]


def written_steps(steps: Steps) -> str:
    return "+".join(f"{start}={gamma}" for start, gamma in steps)
