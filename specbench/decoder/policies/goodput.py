"""Goodput-optimal gamma: the one that commits most tokens per second at this batch size, by what was seen so far."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from specbench.decoder.policies.base import Step, rungs, written

MEMORY = 512
"""Steps of single sessions over which acceptance is averaged, exponentially."""

PRIOR, WEIGHT = 0.5, 8.0
"""Acceptance before anything is known, and of how many judged tokens it has the weight."""

TRIES = 3
"""Steps with each gamma at a new batch size, before their times are compared."""

EXPLORE = 64
"""Every so many steps the gamma that was not used for longest has its turn: times and acceptance change."""

_KEPT_TIMES = 32

_OUTLIER = 4
"""Times of the median beyond which a step's time says nothing of its gamma."""


@dataclass(frozen=True, slots=True)
class GoodputRule:
    """max: the largest gamma that is considered"""

    max: int = 7


class GoodputPolicy:
    """One gamma for the whole batch, argmax of (1 + p_1 + … + p_gamma) / T(batch size, gamma) over 0 and the rungs (the
    rule of SmartSpec and TurboSpec, Liu et al., 2024).

    p_k, the chance that position k is kept when it is asked for, is pooled over sessions: a product of conditional
    rates, each shrunk to their common rate and that to PRIOR. A drafter that finds nothing has failed there.
    T is the mean of the last steps of that gamma at about this batch size (powers of two).
    """

    stop_below: float | None = None

    def __init__(self, rule: GoodputRule) -> None:
        self._rule = rule
        self.largest = rule.max
        self._gammas = (0, *rungs(rule.max))
        self._kept, self._judged = [0.0] * rule.max, [0.0] * rule.max
        self._times: defaultdict[tuple[int, int], deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT_TIMES))
        self._used: dict[tuple[int, int], int] = {}
        self._steps, self._chosen = 0, 0

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        size = len(sessions)
        self._steps += 1
        gamma = self._gamma(size)
        self._used[_about(size), gamma], self._chosen = self._steps, gamma
        return [gamma] * size

    def observe(self, step: Step) -> None:
        faded = (1 - 1 / MEMORY) ** len(step.sessions)
        self._kept = [count * faded for count in self._kept]
        self._judged = [count * faded for count in self._judged]
        for asked, accepted in zip(step.asked, step.accepted, strict=True):
            for k in range(min(accepted + 1, asked)):
                self._judged[k] += 1
                self._kept[k] += k < accepted
        # Under what was chosen, though all may have been near their ends: else that gamma would never count as tried.
        self._times[_about(len(step.sessions)), self._chosen].append(step.seconds)

    def forget(self, session: Hashable) -> None:
        pass

    def __str__(self) -> str:
        return written("goodput", self._rule)

    def expected_tokens(self, gamma: int) -> float:
        """Tokens that a session commits in a step with this gamma, the target's own included."""
        pooled = (sum(self._kept) + WEIGHT * PRIOR) / (sum(self._judged) + WEIGHT)
        total, reached = 1.0, 1.0
        for kept, judged in zip(self._kept[:gamma], self._judged[:gamma], strict=True):
            reached *= (kept + WEIGHT * pooled) / (judged + WEIGHT)
            total += reached
        return total

    def seconds(self, size: int, gamma: int) -> float | None:
        """What a step takes; None until this gamma was tried often enough."""
        times = self._times[_about(size), gamma]
        if len(times) < TRIES:
            return None
        # The mean, since a step for which nothing was found is short; but a hiccup of the machine is not gamma's.
        longest = _OUTLIER * median(times)
        return fmean(seconds for seconds in times if seconds <= longest)

    def _gamma(self, size: int) -> int:
        rates: dict[int, float] = {}
        for gamma in self._gammas:
            seconds = self.seconds(size, gamma)
            if seconds is None:
                return gamma
            rates[gamma] = self.expected_tokens(gamma) / seconds
        if self._steps % EXPLORE == 0:
            return min(self._gammas, key=lambda g: self._used.get((_about(size), g), 0))
        return max(rates, key=rates.__getitem__)


def _about(size: int) -> int:
    """1, 2, 3–4, 5–8, …: batch sizes whose times are taken together."""
    return (size - 1).bit_length()
