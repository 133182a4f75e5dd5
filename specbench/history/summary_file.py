"""A run's summary on disk: one Parquet file with a row per cell, so that a folder of runs need not be analysed anew."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa

from specbench.analysis.cell_table import cell_row, cell_schema
from specbench.analysis.summary import RunSummary, summarize
from specbench.comparison.fingerprint import fingerprint, made_with
from specbench.errors import SpecbenchError
from specbench.history.stamp import PREFIX, summary_path
from specbench.store.cell_file import write_table
from specbench.store.run import MANIFEST, RunStore

_TEXTS = pa.map_(pa.string(), pa.string())
RUN = pa.struct(
    [
        ("run_id", pa.string()),
        ("kept", pa.string()),
        ("created_at", pa.timestamp("us")),
        ("machine", pa.string()),
        ("simulated", pa.bool_()),
        ("specbench_version", pa.string()),
        ("engine", pa.string()),
        ("versions", _TEXTS),
        ("commit", pa.string()),
        ("fingerprint", pa.string()),
        ("recommendation", pa.string()),
        ("recommended_method", pa.string()),
        ("recommended_gamma", pa.int64()),
        ("recommended_up_to_batch_size", pa.int64()),
        ("verdict", pa.string()),
        ("measured", pa.int64()),
        ("planned", pa.int64()),
        ("failed", pa.int64()),
        ("conditions", _TEXTS),
        ("made_with", _TEXTS),
    ]
)
"""docs/query.md explains every field."""


def keep(store: RunStore, summary: RunSummary, measured: int) -> None:
    """Write the summary of a run that has just ended. measured: how many measurements it is of"""
    path, record = summary_path(store.path), summary.to_json()
    _write(path, _run(record, store.manifest, measured, store.launches()), record["cells"])
    remove_stale(store.path, path)


def build(run: Path, path: Path) -> None:
    """Analyse a run, or read what is left of it in report.json, and write its summary to `path`."""
    if (run / MANIFEST).exists():
        store = RunStore.open(run)
        measurements = store.measurements()
        record = summarize(store, measurements).to_json()
        row = _run(record, store.manifest, len(measurements), store.launches())
    else:
        record = RunStore(run).read_json("report.json")
        if "cells" not in record:
            raise SpecbenchError(f"{run / 'report.json'}: not the report of a run, it has no cells.")
        row = {**_run(record, record.get("manifest", {}), None, {}), "kept": "report"}
    _write(path, row, record.get("cells", []))


def remove_stale(run: Path, current: Path) -> None:
    """Remove a run's summaries, or the reasons why there is none, that were made from something else."""
    for old in (*run.glob(f"{PREFIX}*.parquet"), *run.glob(f"{PREFIX}*.error")):
        if old != current:
            old.unlink(missing_ok=True)


def _write(path: Path, run: Mapping[str, Any], cells: list[Mapping[str, Any]]) -> None:
    """A run without cells has one row, whose `method` is null. What a sweep predicted has no place among results."""
    measured = [cell for cell in cells if not cell.get("predicted")]
    rows = [{"run": run, **cell_row(cell)} for cell in measured or [{}]]
    try:
        table = pa.Table.from_pylist(rows, schema=pa.schema([("run", RUN), *cell_schema()]))
    except (pa.ArrowException, TypeError) as error:
        raise SpecbenchError(
            f"{path.parent}: its figures are not of the kinds that docs/columns.md names: {error}"
        ) from error
    write_table(path, table)


def _run(
    report: Mapping[str, Any], manifest: Mapping[str, Any], measured: int | None, launches: Mapping[str, Any]
) -> dict[str, Any]:
    """The fields of `RUN`, from `RunSummary.to_json()` or a report.json of an older layout."""
    verdict, plan = report.get("verdict", {}), manifest.get("plan", {})
    made = made_with(manifest, launches) if "config" in manifest else {}
    return {
        "run_id": report.get("run"),
        "kept": "run",
        "created_at": _utc(manifest.get("created_at")),
        "machine": report.get("machine") or manifest.get("hardware", {}).get("kind"),
        "simulated": report.get("simulated", "simulated" in manifest),
        "specbench_version": manifest.get("specbench_version"),
        "engine": made.get("engine"),
        "versions": _texts(manifest.get("versions", {})),
        "commit": (manifest.get("git") or {}).get("commit"),
        "fingerprint": manifest.get("fingerprint"),
        "recommendation": verdict.get("recommendation"),
        "recommended_method": verdict.get("method"),
        "recommended_gamma": verdict.get("gamma"),
        "recommended_up_to_batch_size": verdict.get("up_to_batch_size"),
        "verdict": verdict.get("text"),
        "measured": measured,
        "planned": plan.get("measurements"),
        "failed": len(report.get("failures", ())),
        "conditions": _texts(fingerprint(manifest)) if "config" in manifest else [],
        "made_with": _texts(made),
    }


def _utc(written: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(written or "")
    except ValueError:
        return None
    return moment.astimezone(timezone.utc).replace(tzinfo=None) if moment.tzinfo else moment


def _texts(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name, str(value)) for name, value in values.items() if value is not None]
