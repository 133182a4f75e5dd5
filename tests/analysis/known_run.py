"""Measurements of known truth: an exact closed loop of given step time, prefill time and acceptance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.backends.base import EngineCounters
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Cell, Measurement
from specbench.store.run import RunStore
from specbench.telemetry.sample import Sample

NGRAM = Speculation("ngram", 4)


def output_of(prompt: str, length: int) -> tuple[int, ...]:
    """Token ids that depend on the prompt alone and never loop."""
    start = sum(map(ord, prompt)) * 1_000
    return tuple(start + i for i in range(length))


def request(
    index: int = 0,
    *,
    prompt_id: str | None = None,
    category: str | None = None,
    due: float = 0.0,
    prefill: float = 0.1,
    step: float = 0.01,
    gamma: int = 0,
    accepted: int = 0,
    length: int = 41,
    token_ids: tuple[int, ...] | None = None,
    **changes: Any,
) -> RequestTrace:
    """One token from the prefill, then accepted + 1 per step (fewer in the last), every step taking `step` seconds."""
    prompt_id = prompt_id if prompt_id is not None else f"p{index:03}"
    ids = token_ids if token_ids is not None else output_of(prompt_id, length)
    left, sizes = len(ids) - 1, []
    while left > 0:
        sizes.append(min(accepted + 1, left))
        left -= sizes[-1]
    times = tuple(due + prefill + step * i for i in range(len(sizes) + 1))
    acceptance = None
    if gamma:
        kept = tuple(size - 1 for size in sizes)
        acceptance = RequestAcceptance(len(sizes), gamma * len(sizes), sum(kept), (gamma,) * len(sizes), kept)
    values: dict[str, Any] = {
        "index": index,
        "prompt_id": prompt_id,
        "category": category,
        "scheduled": due,
        "sent": due,
        "finished": times[-1],
        "chunk_times": times,
        "chunk_tokens": (1, *sizes),
        "prompt_tokens": 20,
        "output_tokens": len(ids),
        "prompt_token_ids": tuple(range(20)),
        "token_ids": ids,
        "text": " ".join(map(str, ids)),
        "finish_reason": "length",
        "error": None,
        "seed": index,
        "acceptance": acceptance,
    }
    return RequestTrace(**{**values, **changes})


def measurement(
    speculation: Speculation = BASELINE,
    batch_size: int = 1,
    *,
    requests: int = 8,
    prompts: int | None = None,
    replicate: int = 0,
    repeat: int = 0,
    lengths: Sequence[int] = (41,),
    steps: Sequence[float] = (0.01,),
    accepted: int = 0,
    prefill: float = 0.1,
    workload: str = "chat",
    temperature: float = 0.0,
    categories: Sequence[str | None] = (None,),
    outputs: Mapping[int, tuple[int, ...]] | None = None,
    phase_seconds: Mapping[str, float] | None = None,
    telemetry: Sequence[Sample] = (),
    **changes: Any,
) -> Measurement:
    """A closed loop of `batch_size` slots, each refilled the moment it frees, whose batch mates do not slow it.

    lengths, steps, categories: output tokens, seconds per step and category of request i, cycled
    outputs: token ids of single requests, by index
    """
    free_at, traces = [0.0] * batch_size, []
    for i in range(requests):
        slot = min(range(batch_size), key=lambda s: free_at[s])
        trace = request(
            i,
            prompt_id=f"p{i % (prompts or requests):03}",
            category=categories[i % len(categories)],
            due=free_at[slot],
            prefill=prefill,
            step=steps[i % len(steps)],
            gamma=speculation.gamma,
            accepted=accepted,
            length=lengths[i % len(lengths)],
            token_ids=(outputs or {}).get(i),
        )
        free_at[slot] = trace.finished
        traces.append(trace)
    cell = Cell("reference", "demo", workload, speculation, batch_size, temperature)
    launch = f"{speculation.label}-r{replicate}"
    values: dict[str, Any] = {
        "id": f"{cell.id}-r{replicate}k{repeat}",
        "launch": launch,
        "cell": cell,
        "replicate": replicate,
        "repeat": repeat,
        "status": "ok",
        "started_at": f"2030-01-01T00:{replicate:02}:{repeat:02}",
        "finished": max(free_at),
        "client_lag_p99": 0.0005,
        "counters": EngineCounters(counts(traces, speculation.gamma), phase_seconds=phase_seconds),
        "traces": tuple(traces),
        "telemetry": tuple(telemetry),
    }
    return Measurement(**{**values, **changes})


def counts(traces: Sequence[RequestTrace], gamma: int) -> AcceptanceCounts | None:
    """What an engine's counters say of these requests."""
    if not gamma:
        return None
    kept = [k for t in traces if t.acceptance for k in t.acceptance.per_step_accepted or ()]
    by_position = tuple(sum(k > position for k in kept) for position in range(gamma))
    return AcceptanceCounts(len(kept), gamma * len(kept), sum(kept), len(kept), by_position)


def failed(speculation: Speculation = NGRAM, batch_size: int = 1, **changes: Any) -> Measurement:
    """A measurement whose server died."""
    values = {
        "status": "failed",
        "error": "the server ended with exit code 137.",
        "log_tail": "loading weights\n<b>Killed</b> | out of memory",
        "counters": None,
        "traces": (),
        "client_lag_p99": None,
    }
    return measurement(speculation, batch_size, **{**values, **changes})


CONFIG: dict[str, Any] = {
    "workload": ["workloads/chat.jsonl"],
    "backend": "reference",
    "target": "demo",
    "method": ["ngram"],
    "gamma": [4],
    "batch_size": [1, 4],
    "temperature": 0.0,
    "verification": "rejection",
    "gpu_price": 2.0,
    "gpu_count": 1,
    "currency": "EUR",
    "engineering_cost": None,
    "tokens_per_month": None,
}


def manifest(**config: Any) -> dict[str, Any]:
    return {
        "run": "known",
        "created_at": "2030-01-01T00:00:00+00:00",
        "specbench_version": "0.1.0",
        "config": {**CONFIG, **config},
        "versions": {"specbench": "0.1.0", "python": "3.11.0", "torch": "2.13.0"},
        "hardware": {"kind": "2-core CPU (Example 9000), 8 GiB, no GPU", "cpu": "Example 9000", "gpus": []},
        "target": {"name": "demo", "digest": "ab" * 32},
        "drafters": {},
        "workloads": [{"name": "chat", "sha256": "cd" * 32, "prompts": 8, "skipped": 0}],
        "git": {"commit": "ef" * 20, "dirty": False},
        "plan": {"launches": 2, "measurements": 4},
        "fingerprint": "01" * 32,
    }


def store(path: Path, measurements: Sequence[Measurement], **config: Any) -> RunStore:
    """The measurements as a run on disk."""
    run = RunStore.create(path, manifest(**config))
    for m in measurements:
        run.write(m)
    return run


def row(summary: RunSummary, method: str, batch_size: int = 1) -> CellSummary:
    return next(c for c in summary.cells if (c.method, c.batch_size) == (method, batch_size))


def codes(cell: CellSummary) -> set[str]:
    return {mark.code for mark in cell.marks}
