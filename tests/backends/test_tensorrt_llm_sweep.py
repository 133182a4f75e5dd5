"""Whole sweeps with the TensorRT-LLM adapter against a server of which all is known: plain, contained, in trouble."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contract_sweep import SCENARIO, known, settings_for, sweep

from specbench.analysis.acceptance import from_requests
from specbench.errors import SpecbenchError
from specbench.replay.lag import INTERVAL, loop_lag
from specbench.replay.timeline import arrivals, tpot, ttft

IMAGE = "nvcr.io/nvidia/tensorrt-llm/release"


@pytest.fixture
def settings(contract: Any, own_cache: Path, tmp_path: Path) -> dict[str, Any]:
    """A sweep of EAGLE-3 at two batch sizes in an environment; its server is in version 1.2.1."""
    prompts = [{"id": f"p{i}", "prompt": f"Question number {i}?"} for i in range(6)]
    contract.behave(scenario=SCENARIO, version="1.2.1")
    engine = {"backend": "tensorrt-llm", "python": contract.python, "engine_version": "1.2.1"}
    return settings_for(tmp_path, "chat", prompts, repeats=1, **engine)


@pytest.mark.parametrize("way", ["environment", "container"])
async def test_acceptance_and_latency_are_the_truth(
    settings: dict[str, Any], contract: Any, tmp_path: Path, way: str
) -> None:
    if way == "container":
        settings = {k: v for k, v in settings.items() if k not in ("python", "engine_version")}
        settings["container"] = f"{IMAGE}:1.2.1"
    async with loop_lag() as delays:
        store = await sweep(settings, tmp_path / "run")
    assert contract.nothing_is_left()
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
    assert contract.nothing_is_left()


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
    assert contract.nothing_is_left()
