"""From a run, or a baseline file, to the snapshot that is compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.cost import Economics
from specbench.analysis.marks import VOIDING
from specbench.analysis.summary import summarize
from specbench.comparison.fingerprint import fingerprint, made_with
from specbench.comparison.metrics import figures, within_launch
from specbench.comparison.snapshot import CellFigures, CellKey, Snapshot
from specbench.errors import SpecbenchError
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore


def load_snapshot(path: Path) -> Snapshot:
    """Of a run's directory, or from a baseline file. Raises SpecbenchError for anything else."""
    if path.is_dir():
        return snapshot(RunStore.open(path))
    if not path.exists():
        raise SpecbenchError(f"{path} does not exist. Give a run's directory, or a file of: specbench baseline save.")
    return Snapshot.read(path)


def snapshot(store: RunStore) -> Snapshot:
    """Of a run as it stands."""
    measurements = store.measurements()
    if not measurements:
        raise SpecbenchError(f"{store.path} holds no measurement yet. Go on with: specbench sweep --resume.")
    replicates = tuple(sorted({m.replicate for m in measurements}))
    by_replicate = [_cells(store, [m for m in measurements if m.replicate == r]) for r in replicates]
    planned: int = store.manifest.get("plan", {}).get("measurements", 0)
    return unmeasured(store).model_copy(
        update={
            "missing": max(0, planned - len(measurements)),
            "replicates": replicates,
            "cells": tuple(
                _cell(key, cell, [cells.get(key) for cells in by_replicate])
                for key, cell in _cells(store, measurements).items()
            ),
        }
    )


def unmeasured(store: RunStore) -> Snapshot:
    """Of a run's manifest alone: what it is measured on and with."""
    manifest = store.manifest
    economics = Economics.from_config(manifest["config"])
    return Snapshot(
        run=str(manifest.get("run", store.path.name)),
        created_at=str(manifest.get("created_at", "")),
        simulated="simulated" in manifest,
        fingerprint=fingerprint(manifest),
        made_with=made_with(manifest, store.launches()),
        gpu_price=economics.gpu_price,
        gpu_count=economics.gpu_count,
        currency=economics.currency,
        replicates=(),
        cells=(),
    )


def _cells(store: RunStore, measurements: Sequence[Measurement]) -> Mapping[CellKey, CellSummary]:
    """The rows of a report on these measurements; the baseline's second measuring is nobody's figure."""
    cells = summarize(store, measurements).cells
    return {
        CellKey(c.workload, c.method, c.gamma, c.as_deployed, c.batch_size, c.request_rate): c
        for c in cells
        if not c.again
    }


def _cell(key: CellKey, whole: CellSummary, replicates: Sequence[CellSummary | None]) -> CellFigures:
    known = [figures(cell) if cell is not None else {} for cell in replicates]
    names = dict.fromkeys(name for found in known for name in found)
    return CellFigures(
        **key._asdict(),
        failures=sum(cell is not None and cell.error is not None for cell in replicates),
        error=whole.error,
        left_out=tuple(_left_out([cell for cell in replicates if cell is not None])),
        acceptance_source=whole.acceptance_source,
        equivalence=whole.equivalence,
        equivalence_detail=whole.equivalence_detail,
        unasked=0 < whole.divergent_requests <= whole.unprobed_requests,
        figures={name: tuple(found.get(name) for found in known) for name in names},
        within={name: (error,) for name, error in within_launch(whole).items()} if len(known) == 1 else {},
    )


def _left_out(replicates: Sequence[CellSummary]) -> Iterator[str]:
    """Each voiding mark once, with the number of replicates that have it."""
    voiding = [mark for cell in replicates for mark in cell.marks if mark.code in VOIDING]
    counts = Counter(mark.code for mark in voiding)
    for code, text in {mark.code: mark.text for mark in voiding}.items():
        yield f"{counts[code]} of {len(replicates)} replicates not counted. {text}"
