"""A run's directory: one file per measurement while it runs, three Parquet tables once it has ended.

manifest.json        versions, hardware, hashes, fingerprint; written before the first launch
config.yaml          the sweep's configuration, as given to `specbench sweep --config`
cells/ID.parquet     one measurement each, until `compact`
requests.parquet  measurements.parquet  telemetry.parquet      after `compact`
equivalence.json     log-probability margins asked for after the timed cells
early_stop.json      why a sweep stopped early, and what it predicts of the cells that it skipped
summary-STAMP.parquet    its cells summed up, for `history` and `query`; made anew where it is missing or stale
logs/LAUNCH.log      engine logs;  events/ID.jsonl   raw event streams, on request
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from specbench.errors import SpecbenchError
from specbench.store import cell_file
from specbench.store.atomic import replacing
from specbench.store.measurement import Measurement

MANIFEST = "manifest.json"
EARLY_STOP = "early_stop.json"

CONTRACT_SERVER = "contract-server"
"""Shown in the place of a backend whose engine did not run: a known-truth server answered under its name."""


class RunStore:
    """Reads and writes one run's directory. `create` starts a new one, `open` reads an existing one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, manifest: Mapping[str, Any]) -> RunStore:
        """A new run. The directory may exist if it holds no run yet; to be called with the lock held."""
        cls.refuse_if_taken(path)
        try:
            for folder in ("cells", "launches", "logs"):
                (path / folder).mkdir(parents=True, exist_ok=True)
            write_json(path / MANIFEST, manifest)
        except OSError as error:
            raise SpecbenchError(f"cannot write to {path}: {error.strerror}. Choose another --output.") from error
        return cls(path)

    @staticmethod
    def refuse_if_taken(path: Path) -> None:
        """Raises SpecbenchError where a run, or what is left of one, is in `path`."""
        if (path / MANIFEST).exists():
            raise SpecbenchError(f"{path} already holds a run. Continue it with --resume, or choose another --output.")
        if (path / "measurements.parquet").exists() or any((path / "cells").glob("*.parquet")):
            raise SpecbenchError(
                f"{path} holds measurements whose {MANIFEST} is gone, so what they are of is not known. "
                "Choose another --output."
            )

    @classmethod
    def open(cls, path: Path) -> RunStore:
        if not (path / MANIFEST).is_file():
            raise SpecbenchError(f"{path} is not a run of specbench sweep: it holds no {MANIFEST}.")
        return cls(path)

    @cached_property
    def manifest(self) -> dict[str, Any]:
        manifest = _read_object(self.path / MANIFEST)
        if "config" not in manifest:
            raise SpecbenchError(f"{self.path / MANIFEST}: not a run's manifest, it has no configuration.")
        return manifest

    @property
    def is_simulated(self) -> bool:
        """Whether no engine ran and the figures come from a scenario."""
        return "simulated" in self.manifest

    @property
    def is_of_contract_server(self) -> bool:
        """Whether a known-truth server answered in the place of the engine that was asked for."""
        return CONTRACT_SERVER in (self.read_json(MANIFEST) or {}).get("simulated", {})

    def mark_contract_server(self) -> None:
        """Note that it is so: from here on nothing takes the run's figures for an engine's."""
        if self.is_of_contract_server:
            return
        backend = self.manifest["config"]["backend"]
        machine = f"SIMULATED hardware ({CONTRACT_SERVER} in the place of {backend}, no engine ran)"
        marks = {"hardware": {"kind": machine}, "simulated": {CONTRACT_SERVER: backend}}
        self.write_json(MANIFEST, {**self.manifest, **marks})
        del self.manifest  # what was cached

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the run while measuring into it. Raises SpecbenchError while another process does."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / ".lock", timeout=0):
                yield
        except Timeout:
            raise SpecbenchError(
                f"another specbench sweep is measuring into {self.path}. Wait for it, or stop it."
            ) from None

    def log_path(self, launch: str) -> Path:
        return self.path / "logs" / f"{launch}.log"

    def launches(self) -> dict[str, dict[str, Any]]:
        """What each launch's server said of its settings (backends.base.ResolvedSettings), by launch id."""
        files = sorted((self.path / "launches").glob("*.json"))
        return {path.stem: _read_object(path) for path in files}

    def write(self, measurement: Measurement) -> None:
        (self.path / "cells").mkdir(exist_ok=True)
        cell_file.write(self._cell_path(measurement.id), measurement)

    def measurements(self) -> list[Measurement]:
        """All measurements, in the order in which they were taken. A cell file wins over the compacted tables."""
        found = {m.id: m for m in self._compacted()}
        found |= {m.id: m for m in map(cell_file.read, sorted((self.path / "cells").glob("*.parquet")))}
        if found and self.is_of_contract_server:
            found = {name: replace(m, cell=replace(m.cell, backend=CONTRACT_SERVER)) for name, m in found.items()}
        return sorted(found.values(), key=lambda m: (m.started_at, m.id))

    def compact(self) -> None:
        """Gather all cell files into three tables, then remove them. Safe to interrupt: `measurements` stays whole."""
        measurements = self.measurements()
        cell_file.write_table(self.path / "requests.parquet", cell_file.request_table(measurements))
        telemetry = [
            {"measurement": m.id, **{name: getattr(s, name) for name in s.__dataclass_fields__}}
            for m in measurements
            for s in m.telemetry
        ]
        cell_file.write_table(
            self.path / "telemetry.parquet", pa.Table.from_pylist(telemetry, schema=TELEMETRY_COLUMNS)
        )
        rows = [_measurement_row(m) for m in measurements]
        cell_file.write_table(self.path / "measurements.parquet", pa.Table.from_pylist(rows))
        for path in (self.path / "cells").glob("*.parquet"):
            path.unlink()

    def read_json(self, name: str) -> Any:
        """A JSON file of the run, or None if it has none of that name."""
        path = self.path / name
        return _read_object(path) if path.exists() else None

    def write_json(self, name: str, value: Any) -> None:
        write_json(self.path / name, value)

    def _cell_path(self, measurement_id: str) -> Path:
        return self.path / "cells" / f"{measurement_id}.parquet"

    def _compacted(self) -> list[Measurement]:
        table = self.path / "measurements.parquet"
        if not table.exists():
            return []
        requests: dict[str, list[dict[str, Any]]] = defaultdict(list)
        try:
            for row in pq.read_table(self.path / "requests.parquet").to_pylist():
                requests[row["measurement"]].append(row)
            rows = pq.read_table(table, columns=["record"])["record"].to_pylist()
            records = [json.loads(record) for record in rows]
        except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
            raise SpecbenchError(
                f"{self.path}: its tables cannot be read ({str(error).splitlines()[0]}). They were damaged after they "
                "were written: restore requests.parquet and measurements.parquet, or measure anew."
            ) from error
        return [cell_file.measurement_from_json(record, requests[record["id"]]) for record in records]


TELEMETRY_COLUMNS = pa.schema(
    [
        ("measurement", pa.string()),
        ("time", pa.float64()),
        ("source", pa.string()),
        ("memory_bytes", pa.int64()),
        ("utilization_percent", pa.float64()),
        ("power_watts", pa.float64()),
        ("sm_clock_mhz", pa.float64()),
        ("device_memory_bytes", pa.int64()),
        ("memory_utilization_percent", pa.float64()),
        ("power_instant_watts", pa.float64()),
        ("energy_joules", pa.float64()),
        ("memory_clock_mhz", pa.float64()),
        ("temperature_celsius", pa.float64()),
        ("throttle", pa.string()),
        ("sm_activity_percent", pa.float64()),
        ("tensor_activity_percent", pa.float64()),
        ("dram_activity_percent", pa.float64()),
        ("pcie_sent_bytes_per_s", pa.float64()),
        ("pcie_received_bytes_per_s", pa.float64()),
    ]
)


def _measurement_row(m: Measurement) -> dict[str, Any]:
    """The columns that people query; `record` beside them holds everything."""
    return {
        "measurement": m.id,
        "launch": m.launch,
        "backend": m.cell.backend,
        "target": m.cell.target,
        "workload": m.cell.workload,
        "method": m.cell.speculation.name,
        "gamma": m.cell.speculation.gamma,
        "batch_size": m.cell.batch_size,
        "request_rate": m.cell.request_rate,
        "temperature": m.cell.temperature,
        "replicate": m.replicate,
        "repeat": m.repeat,
        "status": m.status,
        "error": m.error,
        "started_at": m.started_at,
        "seconds": m.finished - m.started,
        "record": json.dumps(cell_file.measurement_to_json(m)),
    }


def _read_object(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"expected an object, got a {type(value).__name__}")
    except (OSError, ValueError) as error:
        raise SpecbenchError(f"{path}: not the JSON that was written there ({error}).") from error
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    with replacing(path) as partial:
        partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
