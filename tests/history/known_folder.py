"""Folders of runs of known truth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import known_run

from specbench.history.folder import opened
from specbench.history.query import Answer, ask
from specbench.speculation import BASELINE
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore


def measurements(step: float = 0.01, batch_sizes: Sequence[int] = (1, 4), **options: Any) -> list[Measurement]:
    """Plain decoding and n-gram that keeps one draft token per step, in two replicates."""
    return [
        known_run.measurement(
            arm, batch, replicate=r, steps=(step * (1 + 0.02 * r),), accepted=1 if arm.gamma else 0,
            requests=2 * batch, **options,
        )
        for arm in (BASELINE, known_run.NGRAM)
        for batch in batch_sizes
        for r in (0, 1)
    ]  # fmt: skip


def add_run(
    path: Path, day: int = 1, taken: Sequence[Measurement] | None = None, *, compact: bool = True, **manifest: Any
) -> RunStore:
    """A run made on a day of January 2030. manifest: what stands there instead of the usual"""
    store = known_run.store(path, measurements() if taken is None else taken)
    written = {
        **store.manifest,
        "run": path.name,
        "created_at": f"2030-01-{day:02}T12:00:00+00:00",
        "plan": {"launches": 4, "measurements": 8},
        **manifest,
    }
    store.write_json("manifest.json", written)
    if compact:
        store.compact()
    return RunStore.open(path)


def answer(folder: Path, sql: str) -> Answer:
    with opened(folder, lambda text: None) as runs:
        return ask(runs, sql)
