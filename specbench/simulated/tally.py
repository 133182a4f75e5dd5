"""What the simulated engine counts, by rank: it may lose, double and mix up counts, as the scenario says."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from specbench.simulated.drafts import Draft
from specbench.simulated.scenario import Counters
from specbench.simulated.truth import TruthLog

MOST_ITERATIONS = 1_000
"""TensorRT-LLM keeps so many; older ones are lost unless they are read in time."""

GAUGE_STEPS = 40
"""SGLang renews its gauges of acceptance once in so many decoding steps of a rank."""


@dataclass(slots=True)
class RankTally:
    """Counts of one data-parallel rank.

    shown, gathered: accepted tokens and steps that its gauge of acceptance shows, and those for its next window
    """

    positions: list[int]
    steps: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    generated: int = 0
    prompt: int = 0
    requests: int = 0
    first_tokens: int = 0
    first_token_seconds: float = 0.0
    cache_queries: int = 0
    cache_hits: int = 0
    shown: tuple[int, int] = (0, 0)
    gathered: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, drafted: int, accepted: int, emitted: int) -> None:
        self.steps += 1
        self.drafts += drafted > 0
        self.drafted += drafted
        self.accepted += accepted
        self.generated += emitted
        for k in range(min(accepted, len(self.positions))):
            self.positions[k] += 1
        self.gathered[0] += accepted
        self.gathered[1] += 1
        if self.gathered[1] >= GAUGE_STEPS:
            self.shown, self.gathered = (self.gathered[0], self.gathered[1]), [0, 0]


class Tally:
    """The counters of all ranks, and the iterations that nobody has read yet."""

    def __init__(self, counters: Counters, gamma: int, truth: TruthLog) -> None:
        self._counters, self._gamma, self._truth = counters, gamma, truth
        self._owed = 0.0
        self.iterations: deque[dict[str, Any]] = deque(maxlen=MOST_ITERATIONS)
        self.reset()

    def reset(self) -> None:
        self.ranks = [RankTally([0] * self._gamma) for _ in range(self._counters.ranks)]

    def counted(self, draft: Draft, emitted: int) -> int:
        """What the engine takes for the accepted tokens of a step of which `emitted` were left after the end."""
        accepted = draft.accepted if self._counters.whole_last_step else min(draft.accepted, emitted)
        return accepted + self._counters.bonus_as_accepted

    def step(self, rank: int, draft: Draft, emitted: int) -> None:
        self.ranks[rank].add(draft.drafted, self.counted(draft, emitted), emitted)
        self._owed += self._counters.foreign_steps
        while self._owed >= 1:
            self._owed -= 1
            self._foreign(rank)

    def _foreign(self, rank: int) -> None:
        """A step of somebody else's request, in which half of the draft was right."""
        accepted = self._gamma // 2
        self.ranks[rank].add(self._gamma, accepted, accepted + 1)
        self._truth.write("foreign", steps=1, drafted=self._gamma, accepted=accepted)
