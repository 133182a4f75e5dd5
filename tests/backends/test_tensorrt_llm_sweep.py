"""Whole sweeps with the TensorRT-LLM adapter against a server of which all is known: plain, contained, in trouble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psutil
import pytest

from specbench.analysis.acceptance import from_requests
from specbench.errors import SpecbenchError
from specbench.replay.lag import INTERVAL, loop_lag
from specbench.replay.records import RequestTrace
from specbench.replay.timeline import arrivals, tpot, ttft
from specbench.simulated.truth import TrueRequest, Truth
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.sweep.config import load_config
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
IMAGE = "nvcr.io/nvidia/tensorrt-llm/release"


@pytest.fixture
def settings(contract: Any, own_cache: Path, tmp_path: Path) -> dict[str, Any]:
    """A sweep of EAGLE-3 at two batch sizes in an environment; its server is in version 1.2.1."""
    for model in ("target", "head"):
        (tmp_path / model).mkdir()
        (tmp_path / model / "config.json").write_text('{"model_type": "llama", "max_position_embeddings": 4096}')
    lines = [json.dumps({"id": f"p{i}", "prompt": f"Question number {i}?"}) for i in range(6)]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    contract.behave(scenario=SCENARIO, version="1.2.1")
    return {
        "workload": [tmp_path / "chat.jsonl"],
        "backend": "tensorrt-llm",
        "python": contract.python,
        "engine_version": "1.2.1",
        "target": str(tmp_path / "target"),
        "method": ["eagle3"],
        "drafter": {"eagle3": str(tmp_path / "head")},
        "gamma": [3],
        "batch_size": [1, 2],
        "max_tokens": 48,
        "replicates": 1,
        "repeats": 1,
        "device": "cuda",
        "dtype": "bfloat16",
    }


async def sweep(settings: dict[str, Any], path: Path) -> RunStore:
    prepared = prepare(load_config(None, settings), path, resume=False, note=lambda text: None)
    await run_sweep(prepared, Silent())
    return prepared.store


def nothing_is_left(contract: Any) -> bool:
    """No process that the contract servers started, and no container."""
    mine = [p for p in psutil.process_iter(["environ"]) if str(contract.folder) in str(p.info["environ"] or {})]
    containers = contract.folder / "containers"
    return not mine and not (containers.exists() and list(containers.iterdir()))


def known(measurement: Measurement, truth: Truth) -> list[tuple[RequestTrace, TrueRequest]]:
    """Each trace with what really happened to it: of all requests with its seed the next one after it was sent."""
    pairs = []
    for trace in measurement.traces:
        same = (r for r in truth.requests if r.seed == trace.seed and r.arrived >= trace.sent)
        pairs.append((trace, min(same, key=lambda r: r.arrived)))
    return pairs


@pytest.mark.parametrize("way", ["environment", "container"])
async def test_acceptance_and_latency_are_the_truth(
    settings: dict[str, Any], contract: Any, tmp_path: Path, way: str
) -> None:
    if way == "container":
        settings = {k: v for k, v in settings.items() if k not in ("python", "engine_version")}
        settings["container"] = f"{IMAGE}:1.2.1"
    async with loop_lag() as delays:
        store = await sweep(settings, tmp_path / "run")
    assert nothing_is_left(contract)
    assert store.is_of_contract_server
    measured = list(store.measurements())
    assert [m.error for m in measured] == [None] * 4
    for launch in store.launches().values():
        assert (launch["version"], launch["kv_capacity_tokens"]) == ("1.2.1", 6400)
        assert launch["differences"] == launch["lossy"] == []
    for m in measured:
        truth = contract.truths()[m.cell.speculation.method]
        pairs = known(m, truth)
        writes = (event.written - event.time for _, true in pairs for event in true.events)
        error = max(delays) + INTERVAL + max(writes)
        for trace, true in pairs:
            assert trace.output_tokens == true.output_tokens
            times = [event.time for event in true.events]
            assert ttft(trace) == pytest.approx(times[0] - trace.scheduled, abs=error)
            if (per_token := tpot(trace)) is not None:
                later = trace.output_tokens - int(arrivals(trace)[1][0])
                assert per_token == pytest.approx((times[-1] - times[0]) / later, abs=2 * error / later)
        if m.cell.speculation.is_plain:
            continue
        steps = [step for _, true in pairs for step in true.steps]
        pooled = from_requests(m.traces, 3)
        assert pooled is not None
        assert pooled.counts.mean_length() == pytest.approx(sum(s.emitted for s in steps) / len(steps))
        assert m.counters is not None
        assert m.counters.acceptance is not None
        assert m.counters.acceptance.steps == len(steps)
        assert m.counters.acceptance.accepted == sum(step.kept for step in steps)


async def test_a_crash_fails_its_cell_alone(settings: dict[str, Any], contract: Any, tmp_path: Path) -> None:
    faults = [{"kind": "crash", "prompt": "number 5", "token": 4}]
    contract.behave(scenario={**SCENARIO, "faults": faults, "start_seconds": 0.5}, version="1.2.1")
    calm = tmp_path / "calm.jsonl"
    calm.write_text('{"id": "a", "prompt": "One"}\n{"id": "b", "prompt": "Two"}\n')
    store = await sweep({**settings, "workload": [*settings["workload"], calm], "batch_size": [1]}, tmp_path / "run")
    errors = {m.id: m.error for m in store.measurements()}
    assert sorted(errors) == [
        f"{workload}-{arm}-b1-r0k0" for workload in ("calm", "chat") for arm in ("eagle3-g3", "none")
    ]
    for name, error in errors.items():  # in the warm-up, or after it
        assert (
            error is None if "calm" in name else error and error.endswith("ended in mid-measurement with exit code 70.")
        )
    assert nothing_is_left(contract)


async def test_a_server_that_falls_back_to_greedy_decoding_is_not_measured(
    settings: dict[str, Any], contract: Any, tmp_path: Path
) -> None:
    """What the sweep knows before it starts is refused then; what the log alone tells, at the first launch."""
    arguments = ["speculative_config.allow_advanced_sampling=false"]
    sampled = {**settings, "temperature": 0.7, "batch_size": [1], "engine_arg": arguments}
    with pytest.raises(SpecbenchError, match="sampling falls back to greedy decoding"):
        await sweep(sampled, tmp_path / "known")
    contract.behave(scenario=SCENARIO, version="1.2.1", forgets=["allow_advanced_sampling"])
    with pytest.raises(SpecbenchError, match="falls back to greedy decoding for Eagle"):
        await sweep({**sampled, "engine_arg": []}, tmp_path / "run")
    assert nothing_is_left(contract)
