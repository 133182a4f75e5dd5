"""The fit's unknowns as one vector: their order, their priors, and the model at points, for a vector or many draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.planning.acceptance import expected_length, hazards
from specbench.planning.cells import Point, drafts_at_once
from specbench.planning.machine import Machine
from specbench.planning.performance import Drafting, Efficiency, draft_seconds, forward_seconds, tokens_per_second
from specbench.planning.shape import ModelShape

Floats = NDArray[np.float64]

_ENGINE = ("overhead", "memory", "compute", "exponent", "per_sequence", "prefill")
_DRAFTING = ("ratio", "overhead")
_ACCEPTANCE = ("first", "later", "slope")


@dataclass(frozen=True)
class Prior:
    """Independent normals, of logarithms but for the logits of acceptance: [parameters] each."""

    mean: Floats
    spread: Floats


@dataclass(frozen=True)
class Steps:
    """The model at points: [..., points] each, seconds.

    plain: a step without speculation at the same batch size;  draft, verify: the parts of the step at the point
    """

    plain: Floats
    draft: Floats
    verify: Floats
    prefill: Floats
    length: Floats
    tokens_per_second: Floats
    prefill_share: Floats


@dataclass(frozen=True)
class Model:
    """A target on a machine, with the arms (workload, method) whose drafts are to be described.

    A vector holds the engine's parameters, then two per method, then three per arm; a matrix [draws, parameters] works
    alike.
    """

    shape: ModelShape
    machine: Machine
    arms: tuple[tuple[str, str], ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(method for _, method in self.arms))

    @property
    def names(self) -> tuple[str, ...]:
        drafting = [f"{method}.{name}" for method in self.methods for name in _DRAFTING]
        acceptance = [f"{workload}.{method}.{name}" for workload, method in self.arms for name in _ACCEPTANCE]
        return (*_ENGINE, *drafting, *acceptance)

    def prior(self) -> Prior:
        """Ranges that engines and GPUs have been seen in; wide where the machine's rates are guesses."""
        wide = self.machine.spread
        rows = [
            (math.log(1e-3), math.hypot(1.0, wide / 2)),
            (math.log(0.75), math.hypot(0.2, wide)),
            (math.log(0.55), math.hypot(0.27, wide)),
            (math.log(1.4), 0.3),
            (math.log(2e-5), math.hypot(1.5, wide)),
            (0.0, 0.7),
        ]
        for method in self.methods:
            rows += (
                [(math.log(0.006), 1.0), (math.log(1e-4), 1.5)]
                if drafts_at_once(method)
                else [(math.log(0.08), 0.8), (math.log(3e-4), 1.0)]
            )
        rows += [(0.8, 1.2), (0.8, 1.2), (-0.05, 0.15)] * len(self.arms)
        mean, spread = np.array(rows).T
        return Prior(mean, spread)

    def engine(self, theta: Floats) -> Efficiency:
        """With a last axis for points."""
        return Efficiency(*(np.exp(theta[..., i, None]) for i in range(len(_ENGINE))))

    def drafting(self, theta: Floats, method: str) -> Drafting:
        at = len(_ENGINE) + len(_DRAFTING) * self.methods.index(method)
        return Drafting(np.exp(theta[..., at, None]), np.exp(theta[..., at + 1, None]))

    def acceptance(self, theta: Floats, arm: tuple[str, str]) -> tuple[Floats, Floats, Floats]:
        """first, later and slope of `hazards`."""
        at = len(_ENGINE) + len(_DRAFTING) * len(self.methods) + len(_ACCEPTANCE) * self.arms.index(arm)
        return theta[..., at], theta[..., at + 1], theta[..., at + 2]

    def hazards(self, theta: Floats, arm: tuple[str, str], positions: int) -> Floats:
        return hazards(*self.acceptance(theta, arm), positions)

    def steps(self, theta: Floats, points: Sequence[Point]) -> Steps:
        """theta [parameters] or [draws, parameters]."""
        sequences, gamma, context, prompt, output, share = np.array(
            [(p.batch_size, p.gamma, p.context, p.prompt_tokens, p.output_tokens, p.drafted_share) for p in points],
            float,
        ).T
        engine = self.engine(theta)
        plain = forward_seconds(sequences, sequences, context, self.shape, self.machine, engine)
        judged = sequences * (1 + gamma * share)
        verify = forward_seconds(judged, sequences, context, self.shape, self.machine, engine)
        prefill = engine.prefill * forward_seconds(prompt, 1, prompt / 2, self.shape, self.machine, engine)
        draft, length = np.zeros_like(plain), np.ones_like(plain)
        for arm in dict.fromkeys((p.workload, p.method) for p in points if p.gamma):
            here = np.array([p.gamma > 0 and (p.workload, p.method) == arm for p in points])
            passes = np.minimum(gamma[here], 1) if drafts_at_once(arm[1]) else gamma[here]
            draft[..., here] = draft_seconds(passes, plain[..., here], self.drafting(theta, arm[1]))
            first, later, slope = (value[..., None] for value in self.acceptance(theta, arm))
            length[..., here] = expected_length(first, later, slope, gamma[here])
        rate = tokens_per_second(sequences, draft + verify, length, prefill, output)
        return Steps(plain, draft, verify, prefill, length, rate, prefill * rate / output)
