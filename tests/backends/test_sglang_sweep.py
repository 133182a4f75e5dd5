"""Whole sweeps with the SGLang adapter against a server of which all is known: as it is, contained, in trouble."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_sweep import SCENARIO, known, settings_for, sweep
from typer.testing import CliRunner

from specbench.acceptance import AcceptanceCounts
from specbench.access import Access
from specbench.analysis.acceptance import from_requests
from specbench.analysis.summary import summarize
from specbench.cli.main import app
from specbench.errors import SpecbenchError
from specbench.replay.lag import INTERVAL, loop_lag
from specbench.replay.timeline import arrivals, tpot, ttft
from specbench.simulated.mark import is_simulated
from specbench.simulated.truth import counts
from specbench.store.run import CONTRACT_SERVER


@pytest.fixture
def settings(contract: Any, own_cache: Path, tmp_path: Path) -> dict[str, Any]:
    """A sweep of EAGLE-3 at two batch sizes, over chats and completions."""
    prompts = [{"id": f"p{i}", "prompt": f"Question number {i}?"} for i in range(3)]
    chats = [{"id": f"c{i}", "messages": [{"role": "user", "content": f"Chat {i}?"}]} for i in range(3)]
    contract.behave(scenario=SCENARIO)
    return settings_for(tmp_path, "mixed", [*prompts, *chats], backend="sglang", python=contract.python)


@pytest.mark.parametrize("way", ["environment", "container"])
async def test_acceptance_and_latency_are_the_truth(
    settings: dict[str, Any], contract: Any, tmp_path: Path, way: str
) -> None:
    if way == "container":
        settings = {k: v for k, v in settings.items() if k != "python"} | {"container": "lmsysorg/sglang:v0.5.23"}
    # Late, and at first too busy to empty its cache.
    contract.behave(scenario={**SCENARIO, "start_seconds": 1.0}, busy=2)
    async with loop_lag() as delays:
        store = await sweep(settings, tmp_path / "run")
    assert contract.nothing_is_left()
    measured = list(store.measurements())
    assert [m.error for m in measured] == [None] * 4
    for launch in store.launches().values():
        assert (launch["engine"], launch["version"], launch["kv_capacity_tokens"]) == ("SGLang", "0.5.23", 6400)
        assert launch["differences"] == launch["lossy"] == []
    # The container's own processes are seen, and are not taken for others' load.
    assert None not in [m.other_cpu_percent for m in measured]
    for m in measured:
        pairs = known(m, contract.truths()[m.cell.speculation.method])
        writes = (event.written - event.time for _, true in pairs for event in true.events)
        error = max(delays) + INTERVAL + max(writes)
        for trace, true in pairs:
            assert trace.output_tokens == true.output_tokens == len(trace.token_ids or ())
            times, tokens = zip(*((event.time, event.tokens) for event in true.events), strict=True)
            real = replace(trace, chunk_times=times, chunk_tokens=tokens)
            assert ttft(trace) == pytest.approx(ttft(real), abs=error)
            later = trace.output_tokens - int(arrivals(trace)[1][0])
            assert tpot(trace) == pytest.approx(tpot(real), abs=2 * error / later)
        if m.cell.speculation.is_plain:
            continue
        want = counts([true for _, true in pairs], 3)
        pooled = from_requests(m.traces, 3)
        assert pooled is not None
        assert pooled.counts.mean_length() == pytest.approx(want.mean_length())
        beyond_one = sum(step.emitted - 1 for _, true in pairs for step in true.steps)
        assert m.counters is not None
        assert m.counters.acceptance == AcceptanceCounts(steps=want.steps, drafted=None, accepted=beyond_one)
        assert m.counters.prefix_cache_hits == 0


async def test_nothing_takes_it_for_a_measurement(settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run"
    store = await sweep({**settings, "batch_size": [1]}, path)
    store.compact()
    assert store.is_simulated
    summary = summarize(store, store.measurements())
    assert summary.headline.startswith("SIMULATED (contract-server): ")
    assert "contract-server in the place of sglang, no engine ran" in summary.machine
    told = summary.to_json()
    assert told["simulated"] is True
    assert {cell["backend"] for cell in told["cells"]} == {CONTRACT_SERVER}
    assert {cell["equivalence"] for cell in told["cells"]} == {"EXACT"}
    refused = CliRunner().invoke(app, ["report", str(path)])
    assert isinstance(refused.exception, SpecbenchError)
    assert "measured no engine" in str(refused.exception)
    assert not (path / "report.html").exists()
    shown = CliRunner().invoke(app, ["report", str(path), "--allow-simulated"])
    assert "SIMULATED (contract-server)" in shown.stdout
    assert (path / "report.md").read_text().startswith("# SIMULATED (contract-server): ")


async def test_what_cannot_be_told_from_a_known_truth_server_is_not_measured(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer too late, and a server without an engine would pass for an engine."""

    async def asked_at_a_closed_port(base_url: str, access: Access) -> bool:
        return await is_simulated("http://127.0.0.1:9", access)

    monkeypatch.setattr("specbench.sweep.runner.is_simulated", asked_at_a_closed_port)
    store = await sweep({**settings, "batch_size": [1]}, tmp_path / "run")
    errors = [m.error or "" for m in store.measurements()]
    assert len(errors) == 2
    assert all("whether an engine runs there cannot be told" in error for error in errors)


async def test_a_crash_fails_its_cell_alone(settings: dict[str, Any], contract: Any, tmp_path: Path) -> None:
    contract.behave(scenario={**SCENARIO, "faults": [{"kind": "crash", "prompt": "number 2", "token": 4}]})
    calm = tmp_path / "calm.jsonl"
    calm.write_text('{"id": "a", "prompt": "One"}\n{"id": "b", "prompt": "Two"}\n')
    store = await sweep({**settings, "workload": [*settings["workload"], calm], "batch_size": [1]}, tmp_path / "run")
    errors = {m.id: m.error for m in store.measurements()}
    for arm in ("none", "eagle3-g3"):
        # In the warm-up already, where that takes long enough.
        assert (errors[f"mixed-{arm}-b1-r0k0"] or "").endswith("the server ended in mid-measurement with exit code 70.")
        assert errors[f"calm-{arm}-b1-r0k0"] is None
    assert contract.nothing_is_left()


async def test_a_cache_that_stays_in_use_is_a_failed_measurement(
    settings: dict[str, Any], contract: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("specbench.backends.sglang_counters.FLUSH_SECONDS", 0.5)
    contract.behave(scenario=SCENARIO, busy=1_000)
    store = await sweep({**settings, "batch_size": [1]}, tmp_path / "run")
    assert all("does not empty its cache: it answers 400" in (m.error or "") for m in store.measurements())
    assert contract.nothing_is_left()


async def test_a_machine_without_a_gpu_is_a_sentence(settings: dict[str, Any], contract: Any, tmp_path: Path) -> None:
    contract.behave(scenario=SCENARIO, gpus=0)
    store = await sweep({**settings, "batch_size": [1]}, tmp_path / "run")
    assert all("The engine sees no GPU: check the driver" in (m.error or "") for m in store.measurements())


async def test_made_up_acceptance_is_refused_before_anything_starts(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3.5")
    with pytest.raises(SpecbenchError, match=r"SGLANG_SIMULATE_ACC_LEN=3\.5 makes up the acceptance"):
        await sweep(settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    # A container does not inherit the variable.
    inside = {k: v for k, v in settings.items() if k != "python"} | {"container": "lmsysorg/sglang:v0.5.23"}
    store = await sweep({**inside, "batch_size": [1]}, tmp_path / "contained")
    assert [m.error for m in store.measurements()] == [None] * 2
    assert all(launch["lossy"] == [] for launch in store.launches().values())
