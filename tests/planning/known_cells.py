"""A grid of cells whose truth is known: a 70B model on four H200, with EAGLE-3, from parameters of our choosing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.cells import Observation, Point
from specbench.planning.machine import Machine
from specbench.planning.parameters import Model
from specbench.planning.shape import ModelShape

LLAMA_70B = {
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "vocab_size": 128256,
}
ARMS = (("chat", "eagle3"), ("code", "ngram"))
MODEL = Model(ModelShape.of(LLAMA_70B), Machine.of(find_gpu("H200", catalogue()), 4), ARMS)

TRUTH = {
    "overhead": np.log(1.8e-3),
    "memory": np.log(0.68),
    "compute": np.log(0.6),
    "exponent": np.log(1.3),
    "per_sequence": np.log(3e-5),
    "prefill": np.log(1.2),
    "eagle3.ratio": np.log(0.06),
    "eagle3.overhead": np.log(5e-4),
    "ngram.ratio": np.log(0.005),
    "ngram.overhead": np.log(2e-4),
    "chat.eagle3.first": 0.9,
    "chat.eagle3.later": 0.7,
    "chat.eagle3.slope": -0.12,
    "code.ngram.first": -0.4,
    "code.ngram.later": 1.2,
    "code.ngram.slope": 0.05,
}
THETA = np.array([TRUTH[name] for name in MODEL.names])


def point(method: str, gamma: int, batch_size: int) -> Point:
    workload = {m: w for w, m in ARMS}.get(method, "chat")
    share = 0.6 if method == "ngram" else 1.0
    return Point(workload, method if gamma else "none", gamma, batch_size, 800.0, 250.0, share if gamma else 1.0)


def grid(methods: Iterable[str] = ("eagle3", "ngram")) -> list[Point]:
    speculative = [point(m, gamma, size) for m in methods for gamma in (1, 2, 3, 5, 7) for size in (1, 4, 16, 64)]
    return [*(point("none", 0, size) for size in (1, 4, 16, 64)), *speculative]


def measure(
    points: Sequence[Point],
    noise: float = 0.01,
    form: float = 0.0,
    seed: int = 0,
    theta: NDArray[np.float64] = THETA,
    told: bool = True,
) -> list[Observation]:
    """What a sweep would show. noise: of throughput;  form: what the model's form gets wrong, cell by cell, as standard
    deviation of ln throughput;  told: whether the engine tells acceptance and its own clock
    """
    rng = np.random.default_rng(seed)
    steps = MODEL.steps(theta, points)
    found = []
    for i, p in enumerate(points):
        rate = steps.tokens_per_second[i] * np.exp(form * rng.standard_normal() + noise * rng.standard_normal())
        if not told or not p.gamma:
            found.append(Observation(p, float(rate), noise))
            continue
        hazards = MODEL.hazards(theta, (p.workload, p.method), p.gamma)
        reached = 2000 * np.cumprod(hazards)
        clock = {"draft_cost": steps.draft[i] / steps.plain[i], "verify_cost": steps.verify[i] / steps.plain[i]}
        found.append(Observation(p, float(rate), noise, 2000, tuple(reached), **clock))
    return found
