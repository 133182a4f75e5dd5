"""Sweeps over contract servers, and what really happened in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.replay.records import RequestTrace
from specbench.simulated.truth import TrueRequest, Truth
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.sweep.config_file import load_config
from specbench.sweep.prepare import prepare
from specbench.sweep.progress import Silent
from specbench.sweep.runner import run_sweep

SCENARIO = {
    "drafting": {"acceptance": {"conditional": [0.8, 0.6, 0.5]}, "spread": 0.1},
    "step": {"weights_ms": 4, "per_sequence_ms": 0.2},
    "prefill": {"fixed_ms": 5},
    "output": {"tokens": 30, "sigma": 0.3},
    "kv_capacity_tokens": 6400,
}


def settings_for(folder: Path, workload: str, prompts: Sequence[Mapping[str, Any]], **engine: Any) -> dict[str, Any]:
    """Of a sweep of EAGLE-3 at two batch sizes over these prompts. engine: backend, where it is, and the like"""
    for model in ("target", "head"):
        (folder / model).mkdir()
        (folder / model / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 4096}')
    path = folder / f"{workload}.jsonl"
    path.write_text("\n".join(map(json.dumps, prompts)))
    return {
        "workload": [path],
        "target": str(folder / "target"),
        "method": ["eagle3"],
        "drafter": {"eagle3": str(folder / "head")},
        "gamma": [3],
        "batch_size": [1, 2],
        "max_tokens": 48,
        "replicates": 1,
        "device": "cuda",
        "dtype": "bfloat16",
        **engine,
    }


async def sweep(settings: dict[str, Any], path: Path) -> RunStore:
    prepared = prepare(load_config(None, settings), path, resume=False, note=lambda text: None)
    await run_sweep(prepared, Silent())
    return prepared.store


def known(measurement: Measurement, truth: Truth) -> list[tuple[RequestTrace, TrueRequest]]:
    """Each trace with what really happened to it: of all requests with its seed the next one after it was sent."""
    pairs = []
    for trace in measurement.traces:
        same = (r for r in truth.requests if r.seed == trace.seed and r.arrived >= trace.sent)
        pairs.append((trace, min(same, key=lambda r: r.arrived)))
    return pairs
