"""One measurement as one Parquet file: a row per request, everything else in the file's metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import EngineCounters
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.speculation import Speculation
from specbench.store.atomic import replacing
from specbench.store.measurement import Cell, Measurement
from specbench.telemetry.sample import Sample

_METADATA_KEY = b"specbench.measurement"

REQUEST_COLUMNS = pa.schema(
    [
        ("measurement", pa.string()),
        ("index", pa.int32()),
        ("prompt_id", pa.string()),
        ("category", pa.string()),
        ("scheduled", pa.float64()),
        ("sent", pa.float64()),
        ("finished", pa.float64()),
        ("chunk_times", pa.list_(pa.float64())),
        ("chunk_tokens", pa.list_(pa.int32())),
        ("prompt_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("prompt_token_ids", pa.list_(pa.int32())),
        ("token_ids", pa.list_(pa.int32())),
        ("text", pa.string()),
        ("finish_reason", pa.string()),
        ("error", pa.string()),
        ("seed", pa.int64()),
        ("follows", pa.int32()),
        ("steps", pa.int32()),
        ("drafted", pa.int32()),
        ("accepted", pa.int32()),
        ("per_step_drafted", pa.list_(pa.int16())),
        ("per_step_accepted", pa.list_(pa.int16())),
        ("per_step_gamma", pa.list_(pa.int16())),
        ("by_position", pa.list_(pa.int32())),
    ]
)
_ACCEPTANCE = tuple(f.name for f in fields(RequestAcceptance))
_TRACE = tuple(f.name for f in fields(RequestTrace) if f.name != "acceptance")


def request_table(measurements: Iterable[Measurement]) -> pa.Table:
    """All requests of some measurements, one row each, with the columns of `REQUEST_COLUMNS`."""
    return pa.Table.from_pylist(
        [{"measurement": m.id, **_request_row(trace)} for m in measurements for trace in m.traces],
        schema=REQUEST_COLUMNS,
    )


def write(path: Path, measurement: Measurement) -> None:
    """Write the measurement under `path`, whole or not at all."""
    table = request_table([measurement])
    metadata = json.dumps(measurement_to_json(measurement)).encode()
    write_table(path, table.replace_schema_metadata({_METADATA_KEY: metadata}))


def read(path: Path) -> Measurement:
    """The measurement in a file written by `write`."""
    try:
        table = pq.read_table(path)
        metadata = json.loads((table.schema.metadata or {})[_METADATA_KEY])
        return measurement_from_json(metadata, table.to_pylist())
    except (pa.ArrowInvalid, OSError, KeyError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise SpecbenchError(
            f"{path}: not a specbench measurement ({reason}). Delete it and run with --resume."
        ) from error


def write_table(path: Path, table: pa.Table) -> None:
    """Write a Parquet file atomically."""
    with replacing(path) as partial:
        pq.write_table(table, partial, compression="zstd")


def measurement_to_json(measurement: Measurement) -> dict[str, Any]:
    """Everything but the traces. Telemetry becomes columns, which are a tenth of the size of rows; empty ones are not
    kept.
    """
    scalars = (f.name for f in fields(Measurement) if f.name not in ("traces", "telemetry"))
    record = {name: getattr(measurement, name) for name in scalars}
    record["cell"] = asdict(measurement.cell)
    record["counters"] = asdict(measurement.counters) if measurement.counters else None
    columns = {f.name: [getattr(sample, f.name) for sample in measurement.telemetry] for f in fields(Sample)}
    record["telemetry"] = {name: values for name, values in columns.items() if any(v is not None for v in values)}
    return record


def measurement_from_json(record: Mapping[str, Any], request_rows: Iterable[Mapping[str, Any]]) -> Measurement:
    """The inverse of `measurement_to_json`, given the rows of the measurement's requests."""
    cell = dict(record["cell"])
    telemetry = record["telemetry"]
    names = [f.name for f in fields(Sample) if f.name in telemetry]  # the others were empty, or not yet known
    return Measurement(
        **{
            **record,
            "cell": Cell(**{**cell, "speculation": Speculation(**cell["speculation"])}),
            "counters": _counters(record["counters"]),
            "traces": tuple(_trace(row) for row in request_rows),
            "telemetry": tuple(
                Sample(**dict(zip(names, values, strict=True)))
                for values in zip(*(telemetry[name] for name in names), strict=True)
            ),
        }
    )


def _counters(record: Mapping[str, Any] | None) -> EngineCounters | None:
    if record is None:
        return None
    acceptance = record["acceptance"]
    if acceptance is not None:
        acceptance = AcceptanceCounts(**{name: _tuple(value) for name, value in acceptance.items()})
    return EngineCounters(**{**record, "acceptance": acceptance})


def _request_row(trace: RequestTrace) -> dict[str, Any]:
    row = {name: getattr(trace, name) for name in _TRACE}
    for name in _ACCEPTANCE:
        row[name] = getattr(trace.acceptance, name) if trace.acceptance else None
    return row


def _trace(row: Mapping[str, Any]) -> RequestTrace:
    values = {name: _tuple(row.get(name)) for name in _TRACE}
    acceptance = None if row["steps"] is None else RequestAcceptance(**{n: _tuple(row.get(n)) for n in _ACCEPTANCE})
    return RequestTrace(**values, acceptance=acceptance)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
