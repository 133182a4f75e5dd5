"""A run of `specbench sweep` as cells to fit, with the model and the machine that it names."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import summarize
from specbench.analysis.throughput import throughput
from specbench.demo import demo_target_path
from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import Gpu, Precision, catalogue, find_gpu
from specbench.model_config import model_config
from specbench.planning.cells import PLAIN, Observation, Point, arms, drafts_at_once
from specbench.planning.machine import UNKNOWN, Machine
from specbench.planning.parameters import Model
from specbench.planning.shape import STAND_IN, ModelShape
from specbench.speculation import UNKNOWN as UNTOLD
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.target import local_model

_BYTES = {
    "float32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "awq": 0.5,
    "gptq": 0.5,
}
_USUAL_NOISE, _USUAL_WEIGHT = 0.02, 4.0
"""Standard deviation of ln throughput from launch to launch, as often seen, and as how many launches it counts."""

_Key = tuple[str, str, int, int]


@dataclass(frozen=True)
class Measured:
    """What a run has for a fit. notes: sentences on what is assumed, and on cells that are left out"""

    model: Model
    observations: tuple[Observation, ...]
    notes: tuple[str, ...]


def measured(store: RunStore, gpu: Gpu | None = None) -> Measured:
    """gpu: what it ran on, where the run does not name it, or better known

    Raises SpecbenchError where the run has no usable closed-loop cell.
    """
    summary, measurements = summarize(store), store.measurements()
    usable, notes = _usable(summary.cells)
    observations = observe(usable, measurements)
    if not observations:
        raise SpecbenchError(f"{store.path} has no closed-loop cell with a steady throughput to fit.")
    shape, machine, assumed = model_and_machine(store.manifest, gpu)
    return Measured(Model(shape, machine, arms(observations)), observations, (*assumed, *notes))


def observe(cells: Sequence[CellSummary], measurements: Sequence[Measurement]) -> tuple[Observation, ...]:
    """Rows of a closed-loop run, with the lengths and the noise of the measurements that they sum up."""
    taken: dict[_Key, list[Measurement]] = defaultdict(list)
    for m in measurements:
        if m.status == "ok" and not m.cell.is_open_loop:
            taken[m.cell.workload, m.cell.speculation.name, m.cell.speculation.gamma, m.cell.batch_size].append(m)
    noise = _noise(taken)
    shares = _drafted_shares(cells)
    found = []
    for c in cells:
        its = taken[c.workload, c.method, c.gamma, c.batch_size]
        traces = [t for m in its for t in m.traces if t.error is None and t.output_tokens > 1]
        if not traces or c.output_tokens_per_s is None:
            continue
        prompts = [t.prompt_tokens for t in traces if t.prompt_tokens]
        point = Point(
            c.workload,
            c.method if c.gamma else PLAIN,
            c.gamma,
            c.batch_size,
            float(np.mean(prompts)) if prompts else 1.0,
            float(np.mean([t.output_tokens for t in traces])),
            shares.get((c.workload, c.method), 1.0),
        )
        steps = sum(c.acceptance_histogram or ()) // len(its)
        clocked = c.step_cost_basis == "phases"
        prefill = (c.phase_percent or {}).get("prefill")
        found.append(
            Observation(
                point,
                c.output_tokens_per_s,
                noise / math.sqrt(len(its)),
                steps,
                tuple(steps * share for share in c.position_acceptance) if steps and c.position_acceptance else None,
                c.mean_acceptance_length if c.gamma else None,
                c.step_cost_draft if clocked else None,
                c.step_cost_verify if clocked else None,
                prefill / 100 if prefill and 0 < prefill < 100 else None,
            )
        )
    return tuple(found)


def _usable(cells: Sequence[CellSummary]) -> tuple[list[CellSummary], list[str]]:
    usable, notes = [], []
    for c in cells:
        if c.is_open_loop or c.as_deployed or c.again or c.schedule is not None or c.cached_requests is not None:
            continue
        if c.status == "failed" or c.output_tokens_per_s is None:
            notes.append(f"left out: {c.workload}, {c.label}, {c.load_in_words}: no steady throughput.")
        elif c.method == UNTOLD or (c.is_speculative and c.gamma < 1):
            notes.append(f"left out: {c.workload}, {c.label}, {c.load_in_words}: its server does not tell its gamma.")
        else:
            usable.append(c)
    return usable, notes


def _noise(taken: Mapping[_Key, Sequence[Measurement]]) -> float:
    """Standard deviation of ln throughput of one measurement, pooled over cells; drawn to what is usual."""
    squares, freedom = _USUAL_WEIGHT * _USUAL_NOISE**2, _USUAL_WEIGHT
    for its in taken.values():
        logs = [math.log(rate) for m in its if (rate := throughput(m).steady)]
        if len(logs) > 1:
            squares += float(np.var(logs)) * len(logs)
            freedom += len(logs) - 1
    return math.sqrt(squares / freedom)


def _drafted_shares(cells: Sequence[CellSummary]) -> dict[tuple[str, str], float]:
    """Tokens drafted per step over gamma, of methods that find nothing at times: means by workload and method."""
    shares: dict[tuple[str, str], list[float]] = defaultdict(list)
    for c in cells:
        if drafts_at_once(c.method) and c.mean_acceptance_length and c.draft_acceptance_rate:
            drafted = (c.mean_acceptance_length - 1) / c.draft_acceptance_rate
            shares[c.workload, c.method].append(min(1.0, drafted / c.gamma))
    return {arm: sum(found) / len(found) for arm, found in shares.items()}


def model_and_machine(manifest: Mapping[str, Any], gpu: Gpu | None = None) -> tuple[ModelShape, Machine, list[str]]:
    """What a run's manifest names, or the stand-ins for it, and sentences on what is assumed."""
    config = manifest.get("config", {})
    values = _BYTES.get(str(config.get("dtype")), 2.0)
    weights = _BYTES.get(str(config.get("quantization")), values)
    name = str(config.get("target"))
    try:
        directory = demo_target_path() if name == "demo" else local_model(name)
        if directory is None or not directory.is_dir():
            raise SpecbenchError("its config.json is not here.")
        shape = ModelShape.of(model_config(directory), weights, values)
    except SpecbenchError as error:
        note = (
            f"A dense model of usual proportions stands in for {name}, and nothing is assumed of the machine: {error}"
        )
        return STAND_IN, UNKNOWN, [note]
    gpus = manifest.get("hardware", {}).get("gpus", [])
    if gpu is None and (str(config.get("device", "cpu")) == "cpu" or not gpus):
        return shape, UNKNOWN, ["Nothing is assumed of the machine's rates, since it is no GPU of the catalogue."]
    try:
        gpu = gpu or find_gpu(str(gpus[0].get("name", "")), catalogue())
    except SpecbenchError as error:
        return shape, UNKNOWN, [f"Nothing is assumed of the machine's rates: {error}"]
    precision: Precision = "fp8" if weights == 1 else "fp32" if weights == 4 else "bf16"
    return shape, Machine.of(gpu, int(config.get("tensor_parallel") or 1), precision), []
