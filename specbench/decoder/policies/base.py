"""What the engine, and whoever simulates one, knows of a rule that picks gamma. Needs no torch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

ADAPTIVE = "adaptive:"
"""What an adaptive rule begins with where a gamma may stand: `adaptive:threshold+max=5`."""

RUNGS = (1, 2, 3, 5, 7)
"""The gammas that adaptive rules climb between; their largest comes on top."""


def rungs(largest: int) -> tuple[int, ...]:
    """1, 2, 3, 5, 7 as far as they are below `largest`, then that itself."""
    return (*(rung for rung in RUNGS if rung < largest), largest)


def written(name: str, rule: Any) -> str:
    """An adaptive rule as `parse` reads it; settings that are the default are left out."""
    given = [(f.name, getattr(rule, f.name)) for f in fields(rule) if getattr(rule, f.name) != f.default]
    settings = (f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in given)
    return ADAPTIVE + "+".join((name, *settings))


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did: an entry per session that was in it, in the order in which `choose` was asked.

    asked:    the gamma that each was given, less where its end was nearer
    drafted, accepted: tokens proposed (a drafter may find fewer than asked for), and those of them that were kept
    seconds:  what the step took
    """

    sessions: Sequence[Hashable]
    asked: Sequence[int]
    drafted: Sequence[int]
    accepted: Sequence[int]
    seconds: float


class GammaPolicy(Protocol):
    """Decides at every step how many tokens each session drafts, from what earlier steps came to and nothing else.

    So outputs stay exact: no drafted token that the target has not judged has a say in what is drafted next. A session
    is a request in its row; its name is anything hashable. `str` gives the text that `parse` reads.

    largest:    the most that it ever asks for
    stop_below: a drafter that knows its tokens' probabilities ends a draft after one that is less likely than this,
                which is kept and judged like the others; None for drafts of full length
    """

    largest: int
    stop_below: float | None

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        """Gamma of each session of the next step, 0 to `largest`; as many as they are is its batch size."""

    def observe(self, step: Step) -> None:
        """The step that `choose` was asked for is done."""

    def forget(self, session: Hashable) -> None:
        """The session is over; one of the same name would be another."""
