"""What a run's cells say of each arm at each batch size, and which of them say nothing."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from specbench.analysis.bootstrap import RESAMPLES
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.marks import VOIDING
from specbench.analysis.speedup import Pair, pair, replicate_log_ratios, work
from specbench.analysis.statistics import prompt_shifts
from specbench.analysis.throughput import Throughput, throughput
from specbench.analysis.verdict import Outcome, bars, outcome
from specbench.recommend.draws import Floats, JointDraws
from specbench.speculation import BASELINE, UNKNOWN
from specbench.store.measurement import Cell, Measurement

ArmKey = tuple[str, int]
"""Method and gamma."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """A cell that no recommendation rests on, and why."""

    workload: str
    arm: str
    batch_size: int
    reason: str


@dataclass(frozen=True)
class Candidate:
    """An arm at a batch size, over all workloads that are served together, each counting the same.

    outcome:  the worst of its cells' (`verdict.outcome`), as in a sweep's verdict
    bars:     whether one of them points to a loss
    draws:    [RESAMPLES] of ln speedup
    """

    method: str
    gamma: int
    batch_size: int
    outcome: Outcome
    bars: bool
    log_speedup: float
    draws: Floats
    cells: tuple[CellSummary, ...]


@dataclass(frozen=True)
class Evidence:
    """The usable cells of a closed-loop run.

    batch_sizes: that the baseline was measured at, ascending
    arms:        candidates by arm and batch size
    log_rates:   ln of the baseline's requests per second by batch size, its point and its draws; over the workloads the
        geometric mean
    """

    workloads: tuple[str, ...]
    batch_sizes: tuple[int, ...]
    arms: Mapping[ArmKey, Mapping[int, Candidate]]
    baselines: Mapping[int, tuple[CellSummary, ...]]
    log_rates: Mapping[int, tuple[float, Floats]]
    excluded: tuple[Excluded, ...]


def gather(cells: Sequence[CellSummary], measurements: Sequence[Measurement], *, schedules: bool = False) -> Evidence:
    """Evidence of the given rows and of the measurements that they sum up, of one workload or several.

    schedules: whether arms whose gamma follows the batch size are there too, as methods of their own; a schedule is
        made of fixed gammas alone
    """
    by_cell: dict[Cell, list[Measurement]] = defaultdict(list)
    for m in measurements:
        if m.status == "ok" and not m.cell.is_open_loop:
            by_cell[m.cell].append(m)
    workloads = tuple(dict.fromkeys(c.workload for c in cells))
    of_cell = {(c.workload, c.speculation.name, c.speculation.gamma, c.batch_size): c for c in by_cell}
    joint = JointDraws(m.replicate for m in measurements)
    throughputs = {m.id: throughput(m) for taken in by_cell.values() for m in taken}
    excluded: list[Excluded] = []
    found: dict[tuple[str, int, int], list[tuple[CellSummary, float, Floats]]] = defaultdict(list)
    for row in cells:
        if not row.is_speculative or row.is_open_loop or row.adaptive or (row.schedule is not None and not schedules):
            continue
        if (why := reason_against(row)) is not None:
            excluded.append(Excluded(row.workload, row.label, row.batch_size, why))
            continue
        cell = of_cell[row.workload, row.method, row.gamma, row.batch_size]
        pairs = pair(by_cell[cell], by_cell.get(replace(cell, speculation=BASELINE), ()))
        centre, draws = _log_speedup(pairs, throughputs, joint)
        found[row.method, row.gamma, row.batch_size].append((row, centre, draws))
    arms: dict[ArmKey, dict[int, Candidate]] = defaultdict(dict)
    for (method, gamma, batch_size), parts in found.items():
        if missing := set(workloads) - {row.workload for row, _, _ in parts}:
            arm, why = parts[0][0].label, f"it is no evidence on {', '.join(sorted(missing))}, served together with it"
            excluded += [Excluded(row.workload, arm, batch_size, why) for row, _, _ in parts]
            continue
        arms[method, gamma][batch_size] = _candidate(method, gamma, batch_size, parts)
    baselines: dict[int, list[CellSummary]] = defaultdict(list)
    for row in cells:
        if row.is_baseline and not row.is_open_loop and row.status == "ok":
            baselines[row.batch_size].append(row)
    return Evidence(
        workloads,
        tuple(sorted(baselines)),
        dict(arms),
        {size: tuple(rows) for size, rows in sorted(baselines.items())},
        _log_rates(by_cell, throughputs, joint, len(workloads)),
        tuple(excluded),
    )


def reason_against(cell: CellSummary) -> str | None:
    """Why no recommendation may rest on a speculative cell; None where one may."""
    if cell.status == "failed":
        return f"it failed: {cell.error}"
    if cell.method == UNKNOWN or cell.gamma < 1:
        return "its server does not tell what it proposes (sweep it with --method and --gamma)"
    if cell.tree is not None:
        return "its drafts branch, and what is recommended is the gamma of a chain"
    if cell.cached_requests is not None:
        return "it drafts from earlier responses too, and what is recommended remembers none"
    if cell.equivalence == "DIVERGENT":
        return f"outputs differ from plain decoding's: {cell.equivalence_detail}"
    if void := [mark.text for mark in cell.marks if mark.code in VOIDING]:
        return void[0]
    if cell.speedup is None or cell.speedup_ci_low is None:
        return "it has no speedup with an interval (see its marks; --replicates)"
    if cell.owes_gain_to_degenerate:
        return f"only degenerate requests make it faster: without them it is {cell.speedup_without_degenerate:.2f}×"
    return None


def _candidate(
    method: str, gamma: int, batch_size: int, parts: Sequence[tuple[CellSummary, float, Floats]]
) -> Candidate:
    rows = tuple(row for row, _, _ in parts)
    outcomes = {outcome(row) for row in rows}
    return Candidate(
        method,
        gamma,
        batch_size,
        "no gain" if "no gain" in outcomes else "unsure" if "unsure" in outcomes else "gain",
        any(map(bars, rows)),
        math.fsum(centre for _, centre, _ in parts) / len(parts),
        np.mean([draws for _, _, draws in parts], axis=0),
        rows,
    )


def _log_speedup(
    pairs: Sequence[Pair], throughputs: Mapping[str, Throughput], joint: JointDraws
) -> tuple[float, Floats]:
    """ln speedup and its draws: over replicates where there are two, else over the prompts of the one launch."""
    replicates = sorted({m.replicate for m, _ in pairs})
    by_replicate = {
        replicate: ratios[0]
        for replicate in replicates
        if (ratios := replicate_log_ratios([p for p in pairs if p[0].replicate == replicate], throughputs))
    }
    centre = math.fsum(by_replicate.values()) / len(by_replicate)
    draws = joint.of(by_replicate)
    if draws is None:
        shifts = prompt_shifts(work(s for s, _ in pairs), work(b for _, b in pairs))
        draws = np.full(RESAMPLES, centre) if shifts is None else centre + np.resize(shifts, RESAMPLES)
    return centre, draws


def _log_rates(
    by_cell: Mapping[Cell, Sequence[Measurement]],
    throughputs: Mapping[str, Throughput],
    joint: JointDraws,
    workloads: int,
) -> dict[int, tuple[float, Floats]]:
    """Of the baseline; only batch sizes that have a steady window on every workload."""
    found: dict[int, list[tuple[float, Floats]]] = defaultdict(list)
    for cell, taken in by_cell.items():
        if cell.speculation.is_baseline and (by_replicate := _request_rates(taken, throughputs)):
            centre = math.fsum(by_replicate.values()) / len(by_replicate)
            draws = joint.of(by_replicate)
            found[cell.batch_size].append((centre, np.full(RESAMPLES, centre) if draws is None else draws))
    return {
        size: (math.fsum(c for c, _ in parts) / len(parts), np.mean([d for _, d in parts], axis=0))
        for size, parts in sorted(found.items())
        if len(parts) == workloads
    }


def _request_rates(taken: Iterable[Measurement], throughputs: Mapping[str, Throughput]) -> dict[int, float]:
    """ln requests per second by replicate: steady tokens per second over the tokens of a mean request."""
    logs: dict[int, list[float]] = defaultdict(list)
    for m in taken:
        tokens, steady = sum(t.output_tokens for t in m.traces), throughputs[m.id].steady
        if steady and tokens:
            logs[m.replicate].append(math.log(steady * len(m.traces) / tokens))
    return {replicate: math.fsum(values) / len(values) for replicate, values in logs.items()}
