"""Sessions of known acceptance decoded at known costs under a policy: no model, no clock."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from specbench.decoder.policies.base import GammaPolicy, Step

Cost = Callable[[int, int], float]


@dataclass(frozen=True)
class Outcome:
    """tokens, seconds: in all · gammas: chosen, per step and session"""

    tokens: int
    seconds: float
    gammas: list[list[int]]

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.seconds


def simulate(policy: GammaPolicy, alphas: Sequence[float], cost: Cost, steps: int, seed: int = 0) -> Outcome:
    """alphas: of each session, the chance that a judged token is kept · cost: of a step, by batch size and the longest
    draft in it
    """
    dice, sessions = random.Random(seed), list(range(len(alphas)))
    tokens, seconds, gammas = 0, 0.0, []
    for _ in range(steps):
        asked = policy.choose(sessions)
        accepted = [_kept(dice, alpha, gamma) for alpha, gamma in zip(alphas, asked, strict=True)]
        took = cost(len(sessions), max(asked))
        policy.observe(Step(sessions, asked, asked, accepted, took))
        tokens += len(sessions) + sum(accepted)
        seconds += took
        gammas.append(asked)
    return Outcome(tokens, seconds, gammas)


def expected_tokens(alpha: float, gamma: int) -> float:
    """E(alpha, gamma) = (1 - alpha^(gamma + 1)) / (1 - alpha) (Leviathan et al., 2023, eq. 1)."""
    return sum(alpha**k for k in range(gamma + 1))


def _kept(dice: random.Random, alpha: float, gamma: int) -> int:
    kept = 0
    while kept < gamma and dice.random() < alpha:
        kept += 1
    return kept
