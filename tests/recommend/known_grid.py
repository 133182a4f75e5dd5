"""Runs whose speedups are known: closed loops without noise but that which a test puts between launches."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import known_run

from specbench.speculation import BASELINE, DRAFTERLESS, Speculation
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore

PREFILL, STEP, LENGTH = 0.1, 0.01, 41
REQUEST_SECONDS = PREFILL + STEP * (LENGTH - 1)
"""Of a plain request, alone or not: batch mates slow nobody, so n slots finish n / .5 s requests per second."""

Speedups = Mapping[tuple[str, int], Mapping[int, float]]


def measurements(
    speedups: Speedups, *, replicates: int = 3, noise: float = 0.004, **changes: object
) -> list[Measurement]:
    """Every arm at its batch sizes, with the baseline. noise: of an arm's ln throughput from launch to launch"""
    sizes = sorted({size for by_batch in speedups.values() for size in by_batch})
    found = [measured(BASELINE, size, 1.0, r, **changes) for size in sizes for r in range(replicates)]
    for (method, gamma), by_batch in speedups.items():
        for size, speedup in by_batch.items():
            for r in range(replicates):
                # Sums up to nothing over launches, so that their mean is the speedup; each gamma has its own order.
                drawn = speedup * math.exp(noise * (2 * ((r + gamma) % replicates) - replicates + 1))
                arm = Speculation(method, gamma, None if method in DRAFTERLESS else "demo")
                found.append(measured(arm, size, drawn, r, **changes))
    return found


def store(path: Path, speedups: Speedups, **options: object) -> RunStore:
    config = options.pop("config", {})
    assert isinstance(config, dict)
    return known_run.store(path, measurements(speedups, **options), **config)  # type: ignore[arg-type]


def measured(speculation: Speculation, size: int, speedup: float, replicate: int, **changes: object) -> Measurement:
    """One arm at one batch size in one launch: so much faster than plain decoding."""
    accepted = 0 if speculation.is_plain else 1
    steps = math.ceil((LENGTH - 1) / (accepted + 1))
    step = (REQUEST_SECONDS / speedup - PREFILL) / steps
    return known_run.measurement(
        speculation,
        size,
        requests=max(8, 4 * size),
        replicate=replicate,
        accepted=accepted,
        steps=(step,),
        **changes,  # type: ignore[arg-type]
    )
