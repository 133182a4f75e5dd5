"""Outputs that a run has stored: a task needs no new decoding where its prompts were measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specbench.equivalence.greedy import Margins, judge
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestTrace
from specbench.speculation import BASELINE
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore
from specbench.tasks.check import Outputs
from specbench.workloads.prompt import Workload


@dataclass(frozen=True, slots=True)
class StoredOutputs:
    """engine: its name and version · settings: the run's configuration · arms: by cell, with its baseline's"""

    engine: str
    settings: Mapping[str, Any]
    simulated: bool
    arms: Mapping[str, Outputs]


def stored_outputs(run: Path, workload: Workload, methods: Collection[str] = ()) -> StoredOutputs:
    """What a run's cells answered to the workload's prompts, each beside plain decoding of the same load.

    methods: the only ones wanted; all where empty. Raises SpecbenchError where the run did not replay this file, or has
    no such method, or no baseline beside it.
    """
    store = RunStore.open(run)
    names = [w["name"] for w in store.manifest["workloads"] if w["sha256"] == workload.sha256]
    if not names:
        known = ", ".join(w["name"] for w in store.manifest["workloads"])
        raise SpecbenchError(
            f"{run} did not replay {workload.path} as it is now (its workloads: {known}). Give the file that it "
            "replayed, or verify without --run."
        )
    cells: dict[Cell, list[Measurement]] = defaultdict(list)
    for measurement in store.measurements():
        if measurement.status == "ok" and measurement.cell.workload in names:
            cells[measurement.cell].append(measurement)
    coupled = store.manifest["config"].get("verification") == "coupled"
    margins = Margins.from_json(store.read_json("equivalence.json"))
    arms = {}
    for cell, measurements in cells.items():
        baseline = cells.get(replace(cell, speculation=BASELINE))
        if baseline and not cell.speculation.is_plain and (not methods or cell.speculation.method in methods):
            arms[cell.id] = _outputs(cell, measurements, baseline, margins, coupled)
    if not arms:
        wanted = " or ".join(methods) or "speculation"
        raise SpecbenchError(f"{run} has no outputs of {wanted} with plain decoding of the same load beside them.")
    engines = {f"{launch['engine']} {launch['version']}": None for launch in store.launches().values()}
    return StoredOutputs(", ".join(engines), store.manifest["config"], store.is_simulated, arms)


def _outputs(
    cell: Cell, measurements: Sequence[Measurement], baseline: Sequence[Measurement], margins: Margins, coupled: bool
) -> Outputs:
    seeded = cell.temperature == 0 or coupled
    first, *rest = (measurement.traces for measurement in baseline)
    return Outputs(
        baseline=first if seeded else _all(baseline),
        arm=_all(measurements),
        again=[trace for traces in rest for trace in traces] if seeded else (),
        equivalence=judge(cell.id, first, [m.traces for m in measurements], margins, seeded=True) if seeded else None,
    )


def _all(measurements: Sequence[Measurement]) -> list[RequestTrace]:
    return [trace for measurement in measurements for trace in measurement.traces]
