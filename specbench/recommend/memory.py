"""What a drafter takes of the memory: KV cache that requests then lack, and its weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench.analysis.cell_summary import CellSummary
from specbench.demo import demo_target_path
from specbench.drafter import demo_drafter_path
from specbench.errors import SpecbenchError
from specbench.store.measurement import Measurement
from specbench.sweep.preflight import kv_bytes_per_token, weight_bytes
from specbench.target import local_model


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """None: the engine does not say, or the model's files are not here.

    kv_capacity_tokens, plain_kv_capacity_tokens: what the engine's KV cache holds with and without speculation
    kv_tokens_lost, kv_bytes_lost: the difference, in tokens and in the target's bytes for them
    request_tokens: prompt and output of a mean request, at its end
    largest_batch, plain_largest_batch: such requests that fit, each with the gamma + 1 tokens that a step verifies
    drafter_weight_bytes: as loaded
    peak_bytes: measured peak with, less without
    """

    method: str
    gamma: int
    kv_capacity_tokens: int | None
    plain_kv_capacity_tokens: int | None
    kv_tokens_lost: int | None
    kv_bytes_lost: int | None
    request_tokens: float | None
    largest_batch: int | None
    plain_largest_batch: int | None
    drafter_weight_bytes: int | None
    peak_bytes: int | None


def memory_cost(
    method: str,
    gamma: int,
    cells: Sequence[CellSummary],
    measurements: Iterable[Measurement],
    config: Mapping[str, Any],
) -> MemoryCost:
    """Of an arm against the baseline. config: of the run, which names models and precision"""
    arm = [c for c in cells if (c.method, c.gamma) == (method, gamma)]
    plain = [c for c in cells if c.is_baseline]
    capacity, plain_capacity = (
        min((c.kv_capacity_tokens for c in rows if c.kv_capacity_tokens is not None), default=None)
        for rows in (arm, plain)
    )
    peak, plain_peak = (
        max((c.memory_bytes_peak for c in rows if c.memory_bytes_peak is not None), default=None)
        for rows in (arm, plain)
    )
    lengths = [
        t.prompt_tokens + t.output_tokens
        for m in measurements
        if m.cell.speculation.is_baseline
        for t in m.traces
        if t.error is None and t.prompt_tokens is not None
    ]
    request = sum(lengths) / len(lengths) if lengths else None
    lost = None if capacity is None or plain_capacity is None else plain_capacity - capacity
    dtype, target = str(config.get("dtype", "float32")), _target(str(config.get("target")))
    per_token = None if target is None else kv_bytes_per_token(target, dtype)
    drafter = _drafter(method, (config.get("drafter") or {}).get(method))
    return MemoryCost(
        method=method,
        gamma=gamma,
        kv_capacity_tokens=capacity,
        plain_kv_capacity_tokens=plain_capacity,
        kv_tokens_lost=lost,
        kv_bytes_lost=None if lost is None or per_token is None else lost * per_token,
        request_tokens=request,
        largest_batch=None if capacity is None or request is None else int(capacity / (request + gamma + 1)),
        plain_largest_batch=None if plain_capacity is None or request is None else int(plain_capacity / (request + 1)),
        drafter_weight_bytes=None if drafter is None else weight_bytes(drafter, dtype, None),
        peak_bytes=None if peak is None or plain_peak is None else peak - plain_peak,
    )


def _target(name: str) -> Path | None:
    return _here(demo_target_path()) if name == "demo" else _local(name)


def _drafter(method: str, name: str | None) -> Path | None:
    if name is None:
        return None
    demo = demo_drafter_path(method, name)
    return _here(demo) if demo is not None else _local(name)


def _local(name: str) -> Path | None:
    try:
        return local_model(name)
    except SpecbenchError:
        return None


def _here(path: Path) -> Path | None:
    return path if (path / "config.json").is_file() else None
