"""Cells as the fit sees them: where they lie, and what was measured there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

PLAIN = "none"
_AT_ONCE = frozenset({"ngram", "suffix", "medusa"})


def drafts_at_once(arm: str) -> bool:
    """Whether a method drafts in one go, or looks drafts up: a longer draft costs no further pass.

    arm: a method, or one with what was asked of it: `ngram-synthetic`
    """
    return arm.partition("-")[0] in _AT_ONCE


@dataclass(frozen=True, slots=True)
class Point:
    """Where in the grid. Tokens are means per request.

    drafted_share: of gamma tokens, how many a step really proposes: 1 but for methods that find nothing at times
    """

    workload: str
    method: str
    gamma: int
    batch_size: int
    prompt_tokens: float
    output_tokens: float
    drafted_share: float = 1.0

    @property
    def context(self) -> float:
        """Tokens that a sequence attends to, half way through its output."""
        return self.prompt_tokens + self.output_tokens / 2

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What tells it from the other points of a grid: workload, method, gamma, batch size."""
        return self.workload, self.method, self.gamma, self.batch_size

    @property
    def plain(self) -> Point:
        return replace(self, method=PLAIN, gamma=0, drafted_share=1.0)

    @property
    def label(self) -> str:
        arm = PLAIN if self.gamma == 0 else f"{self.method} γ{self.gamma}"
        return f"{self.workload}, {arm}, batch {self.batch_size}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What was measured at a point; None where the engine does not tell.

    noise: standard deviation of ln tokens_per_second, from one launch to the next and over the measurements it is of
    steps: verification passes of one measurement;  reached: of them, those in which position k was accepted
    length: tokens per step, where the engine tells that much and no positions
    draft_cost, verify_cost: seconds by the engine's own clock, in plain steps of the same batch size
    prefill_share: of the engine's time
    """

    point: Point
    tokens_per_second: float
    noise: float
    steps: int = 0
    reached: tuple[float, ...] | None = None
    length: float | None = None
    draft_cost: float | None = None
    verify_cost: float | None = None
    prefill_share: float | None = None


def arms(observations: Sequence[Observation]) -> tuple[tuple[str, str], ...]:
    """Workload and method of each speculative arm, in their order."""
    return arms_of(o.point for o in observations)


def arms_of(points: Iterable[Point]) -> tuple[tuple[str, str], ...]:
    """The same of points, measured or not."""
    return tuple(dict.fromkeys((p.workload, p.method) for p in points if p.gamma))
