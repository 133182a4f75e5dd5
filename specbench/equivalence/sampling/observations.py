"""What the tests look at: tokens drawn at fixed contexts, and what the target itself would draw there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Tokens = tuple[int, ...]
Place = tuple[int, Tokens]
"""A context's number and the output tokens since: where a next token is drawn."""

LISTED = 20
"""Most likely tokens that an engine lists at a place."""

_LEAST_REST = 1e-9
"""Of the rest where there is one: the sum of float32 probabilities may hide it."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The target's next-token distribution after temperature, top-k and top-p, as far as it is known.

    tokens: the most likely ones, in that order · probs: theirs, equal length; what they lack to 1 is the rest's
    is_whole: whether there is no rest: every token that is not listed has probability 0
    """

    tokens: Tokens
    probs: tuple[float, ...]
    is_whole: bool = False

    @classmethod
    def from_logprobs(cls, logprobs: Mapping[int, float], listed: int = LISTED) -> Distribution:
        """From natural log-probabilities by token, of which `listed` were asked for.

        Tokens of probability 0 are no part of it; where fewer than `listed` are above 0, there are no others.
        """
        ranked = sorted(((value, token) for token, value in logprobs.items()), key=lambda pair: (-pair[0], pair[1]))
        kept = [(token, p) for value, token in ranked if (p := math.exp(value)) > 0]
        return cls(tuple(token for token, _ in kept), tuple(p for _, p in kept), len(kept) < listed)

    @property
    def rest(self) -> float:
        """Probability of all other tokens together."""
        return 0.0 if self.is_whole else max(_LEAST_REST, 1.0 - sum(self.probs))

    def cells(self) -> Floats:
        """[k+1] probabilities of the listed tokens and of the rest, which sum to 1."""
        cells = np.array([*self.probs, self.rest])
        return np.asarray(cells / cells.sum())

    def cell(self, token: int) -> int:
        """The cell that a token falls into: its rank, or k, the rest's."""
        return self.tokens.index(token) if token in self.tokens else len(self.tokens)

    @property
    def entropy(self) -> float:
        """In nats; the rest counts as one token, so that this is never too much."""
        cells = self.cells()
        return float(-(cells[cells > 0] * np.log(cells[cells > 0])).sum())


Known = Mapping[Place, Distribution]


@dataclass(frozen=True, slots=True)
class Draw:
    """One sampled output at a context. Its first token comes from the prompt's prefill, the others from steps.

    steps: (drafted, accepted) of every step; None where the engine does not say, or not of all
    """

    context: int
    tokens: Tokens
    steps: tuple[tuple[int, int], ...] | None = None

    def place(self, position: int) -> Place:
        """Where the token at this position of the output was drawn."""
        return self.context, self.tokens[:position]

    def stepped(self) -> range:
        """Positions of the tokens that came from steps: 0-based, so the first of them is the second token."""
        return range(1, len(self.tokens))

    def bonuses(self) -> tuple[int, ...]:
        """Positions of the tokens that follow a draft kept whole; none where the steps do not add up to the output."""
        steps = self.steps or ()
        before_last = 1 + sum(accepted + 1 for _, accepted in steps[:-1])
        if not steps or not before_last < len(self.tokens) <= before_last + steps[-1][1] + 1:
            return ()
        found, at = [], 1
        for drafted, accepted in steps:
            if 0 < drafted == accepted and at + accepted < len(self.tokens):
                found.append(at + accepted)
            at += accepted + 1
        return tuple(found)
