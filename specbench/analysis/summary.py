"""A run in one object: its cells, what to do, where it breaks even, what failed, what it was made with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from specbench.analysis.arm import Arm, LaunchSettings
from specbench.analysis.attached import ATTACHED, by_turns
from specbench.analysis.breakeven import BatchCrossing, SpeedupPoint, batch_crossing
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.cells import summarize_cell
from specbench.analysis.cost import Economics
from specbench.analysis.early_stop import EarlyStop, in_order
from specbench.analysis.goodput import Slo
from specbench.analysis.json_values import to_json_value
from specbench.analysis.memory_roof import Roof
from specbench.analysis.sequential import always_valid_interval
from specbench.analysis.speedup import OverReplicates
from specbench.analysis.statistics import replicate_interval
from specbench.analysis.verdict import Decision, decide
from specbench.analysis.wording import named, verdict_text
from specbench.equivalence.greedy import (
    Divergence,
    Equivalence,
    Margins,
    NoiseFloor,
    judge,
    judge_baseline,
    noise_floor,
    not_checked,
)
from specbench.speculation import BASELINE
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import CONTRACT_SERVER, EARLY_STOP, RunStore

_MANIFEST_KEYS = (
    "created_at",
    "specbench_version",
    "config",
    "versions",
    "simulated",
    "hardware",
    "target",
    "drafters",
    "workloads",
    "git",
    "plan",
    "fingerprint",
)
_MOST_EXAMPLES = 20


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where an arm's speedup crosses 1 on one workload."""

    workload: str
    method: str
    gamma: int
    crossing: BatchCrossing


@dataclass(frozen=True, slots=True)
class DivergenceExample:
    """One of the first divergences of a cell, for a person to look at."""

    cell: str
    verdict: str
    divergence: Divergence


@dataclass(frozen=True, slots=True)
class Failure:
    """A measurement that gave no result. cell: id of the cell it was of;  log_tail: the engine's last lines."""

    cell: str
    measurement: str
    launch: str
    error: str
    log_tail: str | None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Everything that a report says of a run. `manifest` is what the run was made with, `machine` one line of it."""

    run: str
    machine: str
    decision: Decision
    by_workload: Mapping[str, Decision]
    text: str
    cells: tuple[CellSummary, ...]
    break_even: tuple[BreakEven, ...]
    noise_floor: NoiseFloor
    epsilon: float | None
    divergences: tuple[DivergenceExample, ...]
    failures: tuple[Failure, ...]
    manifest: Mapping[str, Any]
    early_stop: EarlyStop | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether the figures come from a scenario, and no engine ran."""
        return "simulated" in self.manifest

    @property
    def mark(self) -> str:
        """What every heading begins with where no engine ran, or verdicts are not exact; empty for a measurement."""
        if not self.is_simulated:
            config = self.manifest["config"]
            if acceptance := config.get("acceptance"):
                return f"SYNTHETIC ACCEPTANCE ({acceptance}): "
            return "TYPICAL ACCEPTANCE: " if config.get("verification") == "typical" else ""
        return f"SIMULATED ({CONTRACT_SERVER}): " if CONTRACT_SERVER in self.manifest["simulated"] else "SIMULATED: "

    @property
    def rows(self) -> tuple[CellSummary, ...]:
        """Of tables: the cells, and among them what was predicted in the place of measuring it."""
        return in_order(self.cells, self.early_stop.predicted if self.early_stop else ())

    @property
    def headline(self) -> str:
        """The decision in a line; of a simulation it says so."""
        d = self.decision
        arm = f": {named(d)}" if d.method else ""
        return f"{self.mark}{d.recommendation}{arm}"

    def to_json(self) -> dict[str, Any]:
        """One object of JSON values; docs/columns.md has its keys."""
        record: dict[str, Any] = {
            "run": self.run,
            "simulated": self.is_simulated,
            "machine": self.machine,
            "verdict": {
                **asdict(self.decision),
                "text": self.text,
                "by_workload": [{"workload": name, **asdict(d)} for name, d in self.by_workload.items()],
            },
            "cells": [asdict(cell) for cell in self.rows],
            "break_even": [
                {"workload": b.workload, "method": b.method, "gamma": b.gamma, **asdict(b.crossing)}
                for b in self.break_even
            ],
            "equivalence": {
                "noise_floor": {**asdict(self.noise_floor), "rate": self.noise_floor.rate},
                "epsilon": self.epsilon,
                "divergences": [
                    {"cell": d.cell, "verdict": d.verdict, **asdict(d.divergence)} for d in self.divergences
                ],
            },
            "early_stop": self.early_stop.to_json() if self.early_stop else None,
            "failures": [asdict(failure) for failure in self.failures],
            "manifest": self.manifest,
        }
        return {key: to_json_value(value) for key, value in record.items()}


def summarize(
    store: RunStore, measurements: Sequence[Measurement] | None = None, *, pricing: Mapping[str, Any] | None = None
) -> RunSummary:
    """Analyse a run as it stands: complete, or still going, or with every launch failed.

    measurements: the store's own, where the caller has read them already
    pricing: fields of `Economics` that stand in for those of the run's configuration, in `manifest` too
    """
    if measurements is None:
        measurements = store.measurements()
    config: Mapping[str, Any] = {**store.manifest.get("config", {}), **(pricing or {})}
    manifest = {**store.manifest, "config": config}
    margins = Margins.from_json(store.read_json("equivalence.json"))
    settings = {launch: _settings(record) for launch, record in store.launches().items()}
    arms = _arms(measurements)
    verdicts = {cell: _equivalence(arm, arms.get(_baseline_of(cell)), margins, config) for cell, arm in arms.items()}
    economics, slo, roof = Economics.from_config(config), Slo.from_config(config), Roof.from_manifest(manifest)
    over_replicates: OverReplicates = always_valid_interval if config.get("until_ci") else replicate_interval
    if config.get("backend") == ATTACHED:
        over_replicates = by_turns(over_replicates)
    cells = tuple(
        summarize_cell(
            arm, arms.get(_baseline_of(cell)), verdicts[cell], economics, settings, over_replicates, slo, roof
        )
        for cell, arm in arms.items()
    )
    workloads = list(dict.fromkeys(c.workload for c in cells))
    early = EarlyStop.of(store.read_json(EARLY_STOP), cells)
    largest = early.largest if early else 0
    decision = decide(cells, largest)
    by_workload = {w: decide((c for c in cells if c.workload == w), largest) for w in workloads}
    noise = _noise_floor(arms, config)
    machine = str(manifest.get("hardware", {}).get("kind", "an unnamed machine"))
    # What it chose not to measure is not missing.
    missing = 0 if early else _missing(manifest, measurements)
    text = verdict_text(decision, by_workload, cells, noise, machine, missing)
    return RunSummary(
        run=str(manifest.get("run", store.path.name)),
        machine=machine,
        decision=decision,
        by_workload=by_workload,
        text=f"{early.text} {text}" if early else text,
        cells=cells,
        break_even=tuple(_break_even(cells)),
        noise_floor=noise,
        epsilon=margins.epsilon,
        divergences=tuple(_examples(verdicts)),
        failures=tuple(
            Failure(m.cell.id, m.id, m.launch, m.error or "failed", m.log_tail)
            for m in measurements
            if m.status == "failed"
        ),
        manifest={key: manifest[key] for key in _MANIFEST_KEYS if key in manifest},
        early_stop=early,
    )


def _missing(manifest: Mapping[str, Any], measurements: Sequence[Measurement]) -> int:
    planned: int = manifest.get("plan", {}).get("measurements", 0)
    return max(0, planned - len(measurements))


def _arms(measurements: Iterable[Measurement]) -> dict[Cell, Arm]:
    """Measurements by cell; the baseline first, then methods in the order measured, gamma and batch size growing."""
    groups: dict[Cell, list[Measurement]] = defaultdict(list)
    for m in measurements:
        groups[m.cell].append(m)
    methods = list(dict.fromkeys(cell.speculation.method for cell in groups))
    workloads = list(dict.fromkeys(cell.workload for cell in groups))

    def position(cell: Cell) -> tuple[int, int, int, int, int, float]:
        s = cell.speculation
        rank = 0 if s.is_baseline else 1 if s.is_plain else 2
        place, load = workloads.index(cell.workload), (cell.batch_size, cell.request_rate or 0.0)
        return place, rank, methods.index(s.method), s.gamma, *load

    return {cell: Arm.of(cell, groups[cell]) for cell in sorted(groups, key=position)}


def _baseline_of(cell: Cell) -> Cell:
    return replace(cell, speculation=BASELINE)


def _is_seeded(cell: Cell, config: Mapping[str, Any]) -> bool:
    return cell.temperature == 0 or config.get("verification") == "coupled"


def _equivalence(arm: Arm, baseline: Arm | None, margins: Margins, config: Mapping[str, Any]) -> Equivalence:
    seeded, outputs = _is_seeded(arm.cell, config), [m.traces for m in arm.ok]
    if arm.cell.speculation.is_baseline:
        return judge_baseline(outputs, seeded=seeded)
    if arm.cell.speculation.synthetic is not None:
        return not_checked("acceptance is made up, so outputs are not the target's")
    if arm.cell.speculation.typical:
        return not_checked("typical acceptance keeps drafts that are likely enough, so outputs are not the target's")
    references = sorted(baseline.ok, key=lambda m: (m.replicate, m.repeat)) if baseline else []
    return judge(arm.cell.id, references[0].traces if references else None, outputs, margins, seeded=seeded)


def _noise_floor(arms: Mapping[Cell, Arm], config: Mapping[str, Any]) -> NoiseFloor:
    """Over the workloads, each within itself."""
    baselines: dict[str, list[Arm]] = defaultdict(list)
    for cell, arm in arms.items():
        if cell.speculation.is_baseline and _is_seeded(cell, config):
            baselines[cell.workload].append(arm)
    floors = [noise_floor([m.traces for arm in group for m in arm.ok]) for group in baselines.values()]
    return NoiseFloor(sum(f.compared for f in floors), sum(f.differing for f in floors))


def _break_even(cells: Sequence[CellSummary]) -> Iterable[BreakEven]:
    speedups: dict[tuple[str, str, int], dict[int, SpeedupPoint]] = defaultdict(dict)
    for cell in cells:
        if cell.is_speculative and cell.speedup is not None and cell.is_evidence and not cell.owes_gain_to_degenerate:
            point = SpeedupPoint(cell.speedup, cell.speedup_ci_low, cell.speedup_ci_high)
            speedups[cell.workload, cell.method, cell.gamma][cell.batch_size] = point
    for arm, by_batch in speedups.items():
        if (crossing := batch_crossing(by_batch)) is not None:
            yield BreakEven(*arm, crossing)


def _examples(verdicts: Mapping[Cell, Equivalence]) -> list[DivergenceExample]:
    """Bugs before near ties; of a prompt in a cell the first alone, since replicates mostly repeat it."""
    found = [DivergenceExample(c.id, "DIVERGENT", d) for c, e in verdicts.items() for d in e.divergent]
    found += [DivergenceExample(c.id, "NEAR_TIE", d) for c, e in verdicts.items() for d in e.near_ties]
    first = {(e.cell, e.divergence.prompt_id): e for e in reversed(found)}
    return [e for e in found if first[e.cell, e.divergence.prompt_id] is e][:_MOST_EXAMPLES]


def _settings(record: Mapping[str, Any]) -> LaunchSettings:
    clauses = (tuple(record.get(name, ())) for name in ("differences", "lossy", "contaminated"))
    return LaunchSettings(record.get("kv_capacity_tokens"), *clauses)
