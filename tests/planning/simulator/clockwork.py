"""Replicas whose times are known: every pass takes the same, so that a request of N tokens alone takes N passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.planning.machine import UNKNOWN
from specbench.planning.performance import Drafting, Efficiency
from specbench.planning.shape import STAND_IN
from specbench.planning.simulator import Acceptance, Replica
from specbench.workloads.traffic import Traffic

STEP = 0.01
CLOCK = Efficiency(overhead=STEP, memory=1e9, compute=1e9, exponent=1.0, per_sequence=0.0, prefill=1.0)
FREE = Drafting(0.0, 0.0)
USUAL = Acceptance(first=1.0, later=0.8, slope=-0.1)


def clockwork(**settings: Any) -> Replica:
    """Drafts cost nothing, the cache is never full, and prompts are read on the side."""
    usual: dict[str, Any] = {
        "drafting": FREE,
        "acceptance": USUAL,
        "max_batch_size": 1,
        "token_budget": 10**6,
        "kv_tokens": 10**9,
        "chunked": True,
    }
    return Replica(STAND_IN, UNKNOWN, CLOCK, **{**usual, **settings})


@dataclass(frozen=True)
class Geometric:
    """The exponential distribution of whole numbers."""

    mean: float

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int32]:
        return rng.geometric(1 / self.mean, count).astype(np.int32)


@dataclass(frozen=True)
class OneOf:
    """Each as likely as the others."""

    values: tuple[int, ...]

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int32]:
        return rng.choice(self.values, count).astype(np.int32)


def at(
    times: list[float], prompt: int | list[int], output: int | list[int], session: list[int] | None = None
) -> Traffic:
    lengths = (np.broadcast_to(np.array(value, np.int32), len(times)) for value in (prompt, output))
    return Traffic(np.array(times, float), *lengths, None if session is None else np.array(session, np.int64))
