"""How long the simulated engine's passes take, in seconds."""

from __future__ import annotations

import math
import random

from specbench.simulated.scenario import Drafting, Prefill, StepTime


class Pace:
    """The clock of one start of the server: `launch_noise` is drawn once, `noise` for every pass."""

    def __init__(self, step: StepTime, prefill: Prefill, drafting: Drafting, source: random.Random) -> None:
        self._step, self._prefill, self._drafting = step, prefill, drafting
        self._source = source
        self._launch = _factor(source, step.launch_noise)

    def step(self, batch_size: int, context_tokens: int, gamma: int) -> float:
        """A decoding step of `batch_size` sequences, each with gamma drafted tokens and one of its own to verify.

        context_tokens: summed over sequences
        """
        draft = self._drafting.fixed_ms + self._drafting.per_token_ms * gamma if gamma else 0.0
        return self._noisy(draft + self._forward(batch_size, context_tokens, gamma))

    def prefill(self, tokens: int) -> float:
        """A pass over `tokens` prompt tokens, of one request or several."""
        return self._noisy(self._prefill.fixed_ms + self._prefill.per_1k_tokens_ms * tokens / 1000)

    def _forward(self, batch_size: int, context_tokens: int, gamma: int) -> float:
        s = self._step
        memory = s.weights_ms + s.context_ms_per_1k_tokens * context_tokens / 1000
        compute = s.compute_ms_per_token * batch_size * (gamma + 1)
        roof = math.pow(math.pow(memory, s.overlap) + math.pow(compute, s.overlap), 1 / s.overlap)
        return s.fixed_ms + roof + s.per_sequence_ms * batch_size

    def _noisy(self, milliseconds: float) -> float:
        return milliseconds / 1000 * self._launch * _factor(self._source, self._step.noise)


def _factor(source: random.Random, sigma: float) -> float:
    return math.exp(source.gauss(0.0, sigma)) if sigma else 1.0
