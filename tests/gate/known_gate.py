"""Runs of known truth to be gated: each launch's steps differ by a known factor, and nothing else differs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import known_run
from known_run import NGRAM, measurement

from specbench.comparison.snapshot import CellFigures, CellKey, Snapshot
from specbench.speculation import BASELINE
from specbench.store.run import RunStore

STEP = 0.01
CALM = (0.004, -0.006, 0.001, 0.005, -0.004)
"""ln of how much slower each launch's speculative steps are."""

BREEZE = (-0.005, 0.003, 0.006, -0.002, -0.003)


def run(
    path: Path,
    *,
    noise: Sequence[float] = CALM,
    slower: float = 1.0,
    plain_slower: float = 1.0,
    accepted: int = 1,
    batch_sizes: Sequence[int] = (1, 4),
    config: Mapping[str, Any] | None = None,
    **manifest: Any,
) -> RunStore:
    """A run on disk, a replicate for each of `noise`. Plain decoding takes 10 ms a token, ngram 12 ms a step of two
    tokens: its speedup is 2 / 1.2, over `slower`, over e^noise.
    """
    taken = []
    for replicate, logs in enumerate(noise):
        for batch_size in batch_sizes:
            common = {"requests": 6 * batch_size, "replicate": replicate, "prefill": 0.0}
            speed = 1.2 * STEP * slower * math.exp(logs)
            plain = STEP * plain_slower
            taken.append(measurement(BASELINE, batch_size, steps=(plain,), **common))
            taken.append(measurement(NGRAM, batch_size, steps=(speed,), accepted=accepted, **common))
    return stored(path, taken, config=config, **manifest)


def stored(path: Path, taken: Sequence[Any], config: Mapping[str, Any] | None = None, **manifest: Any) -> RunStore:
    """These measurements as a run on disk; `config` and `manifest` on top of those of known_run."""
    store = known_run.store(path, taken, **(config or {}))
    whole = {**store.manifest, "run": path.name, "plan": {"measurements": len(taken)}, **manifest}
    (path / "manifest.json").write_text(json.dumps(whole))
    return RunStore.open(path)


def snapshot(
    figures: Mapping[str, Sequence[Sequence[float | None]]], *, run: str = "a", gamma: int = 4, **changes: Any
) -> Snapshot:
    """Of speculative cells at batch sizes 1, 2, …: by metric the figures of each cell, by replicate."""
    cells = max(len(values) for values in figures.values())
    replicates = max(len(v) for values in figures.values() for v in values)
    made: dict[str, Any] = {
        "run": run,
        "fingerprint": {"hardware": "a machine", "workload chat": "ab" * 32, "--max-tokens": 64},
        "made_with": {"engine": "vllm 1"},
        "replicates": tuple(range(replicates)),
        "cells": tuple(
            CellFigures(
                workload="chat",
                method="ngram" if gamma else "none",
                gamma=gamma,
                batch_size=i + 1,
                figures={name: tuple(values[i]) for name, values in figures.items()},
            )
            for i in range(cells)
        ),
    }
    return Snapshot(**{**made, **changes})


def speedups(*logs: Sequence[float], centre: float = 1.5, **changes: Any) -> Snapshot:
    """A snapshot whose cells' speedups are `centre` times e to these."""
    return snapshot({"speedup": [[centre * math.exp(x) for x in cell] for cell in logs]}, **changes)


def key(batch_size: int = 1) -> CellKey:
    return CellKey("chat", "ngram", 4, False, batch_size, None)
