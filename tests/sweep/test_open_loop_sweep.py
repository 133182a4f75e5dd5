"""A sweep by request rate on the known-truth server: the same store, resume and report as one by batch size."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from specbench.analysis.summary import RunSummary, summarize
from specbench.errors import SpecbenchError
from specbench.report.terminal import render_summary
from specbench.report.write import write_report
from specbench.store.run import RunStore
from specbench.sweep.config_file import load_config
from specbench.sweep.plan import make_plan
from specbench.sweep.prepare import prepare
from specbench.sweep.progress import Silent
from specbench.sweep.runner import run_sweep

SCENARIO = {
    "drafting": {"acceptance": {"alpha": 0.8}},
    "step": {"weights_ms": 4},
    "output": {"tokens": 12, "ends": False},
}


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(SCENARIO))
    lines = [json.dumps({"id": f"p{i}", "prompt": f"Question number {i}?"}) for i in range(6)]
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    return {
        "workload": [tmp_path / "chat.jsonl"],
        "backend": "simulated",
        "scenario": tmp_path / "scenario.yaml",
        "target": "any/model",
        "method": ["ngram"],
        "gamma": [3],
        "batch_size": [4],
        "max_tokens": 12,
        "replicates": 1,
        "request_rate": [10, 40],
        "arrival": "constant",
        "requests": 16,
        "slo": {"e2e_p95": "10s"},
    }


async def sweep(settings: Mapping[str, Any], path: Path, *, resume: bool = False) -> RunStore:
    prepared = prepare(load_config(None, settings), path, resume=resume, note=lambda text: None)
    await run_sweep(prepared, Silent())
    return prepared.store


async def test_every_arm_is_measured_at_every_rate_under_the_same_arrivals(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    store = await sweep(settings, tmp_path / "run")
    measured = {m.id: m for m in store.measurements()}
    assert sorted(measured) == [f"chat-{arm}-q{q}-r0k0" for arm in ("ngram-g3", "none") for q in (10, 40)]
    for m in measured.values():
        assert m.status == "ok"
        due = np.array([t.scheduled for t in m.traces])
        assert m.cell.request_rate is not None
        np.testing.assert_allclose(due - due[0], np.arange(16) / m.cell.request_rate, atol=1e-6)
        assert [t.prompt_id for t in m.traces[:6]] == [t.prompt_id for t in m.traces[6:12]]
        assert all(t.sent >= t.scheduled for t in m.traces)
    summary = summarize(store)
    check_report(summary, store, tmp_path)
    # What is there is not measured again, and a compacted run reads the same.
    store.compact()
    again = await sweep(settings, tmp_path / "run", resume=True)
    assert [m.started_at for m in again.measurements()] == [m.started_at for m in measured_in_order(measured)]
    assert summarize(again).to_json()["cells"] == summary.to_json()["cells"]


def measured_in_order(measured: Mapping[str, Any]) -> list[Any]:
    return sorted(measured.values(), key=lambda m: (m.started_at, m.id))


def check_report(summary: RunSummary, store: RunStore, tmp_path: Path) -> None:
    for cell in summary.cells:
        assert cell.request_rate in (10, 40)
        assert cell.offered_requests_per_s == pytest.approx(cell.request_rate)
        assert (cell.goodput_percent, cell.slo_met) == (100, True)
        assert cell.equivalence == "EXACT"
        assert (cell.speedup, cell.output_tokens_per_s) == (None, None)
        assert cell.latency_speedup is not None
    paths = write_report(summary, store.measurements(), store.path, tmp_path / "report")
    markdown, page = paths.markdown.read_text("utf-8"), paths.html.read_text("utf-8")
    for text in (markdown, page):
        assert "served/s" in text
        assert "goodput/s" in text
        assert "100%, kept" in text
        assert "counted from when each request was due" in text
    assert "10.00" in markdown
    assert {path.stem for path in paths.plots} >= {"latency", "acceptance"}
    assert not {path.stem for path in paths.plots} & {"speedup", "pareto", "cost", "throughput"}
    render_summary(summary)


async def test_a_new_slo_needs_no_new_measurement_and_a_new_rate_is_another_run(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    one = {**settings, "request_rate": [40], "requests": 4}
    store = await sweep(one, tmp_path / "run")
    strict = summarize(store, pricing={"slo": {"e2e_p50": 1e-6}})
    assert {(c.goodput_percent, c.slo_met) for c in strict.cells} == {(0, False)}
    await sweep({**one, "slo": {"ttft_p99": "1s"}}, tmp_path / "run", resume=True)
    with pytest.raises(SpecbenchError, match=r"config\.request_rate"):
        await sweep({**one, "request_rate": [20]}, tmp_path / "run", resume=True)


async def test_a_trace_of_arrivals_is_replayed_at_its_own_times_and_is_part_of_the_runs_identity(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    trace = tmp_path / "arrivals.txt"
    trace.write_text("0\n0.05\n0.06\n0.3\n")
    recorded = {**settings, "arrival": f"trace:{trace}", "request_rate": [], "requests": 4, "method": []}
    store = await sweep(recorded, tmp_path / "run")
    (m,) = store.measurements()
    assert m.id == "chat-none-q10-r0k0"  # three gaps in .3 s
    due = [t.scheduled - m.traces[0].scheduled for t in m.traces]
    assert due == pytest.approx([0, 0.05, 0.06, 0.3], abs=1e-6)
    trace.write_text("0\n0.1\n")
    with pytest.raises(SpecbenchError, match="arrivals"):
        await sweep(recorded, tmp_path / "run", resume=True)


def test_a_plan_has_a_cell_per_rate_and_the_largest_batch_size_as_the_servers_limit(settings: dict[str, Any]) -> None:
    config = load_config(None, {**settings, "batch_size": [2, 8]})
    cells = {m.cell for m in make_plan(config).measurements}
    assert {(c.batch_size, c.request_rate) for c in cells} == {(8, 10.0), (8, 40.0)}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"request_rate": []}, "--arrival constant does not say how many come: add --request-rate"),
        ({"request_rate": [0]}, "--request-rate: .*greater than 0"),
        ({"request_rate": [float("inf")]}, "--request-rate: .*finite"),
        ({"arrival": "bursty"}, r"--arrival: expected poisson, gamma:CV .*; got 'bursty'"),
        ({"arrival": "gamma:0"}, "--arrival: .*must be above 0"),
        ({"slo": {"ttft_p42": "1s"}}, "--slo: 'ttft_p42' is none of ttft, tpot and e2e"),
        ({"slo": {"ttft_p95": "soon"}}, "--slo: expected a time such as 500ms"),
        ({"slo": {"ttft_p95": 0}}, "--slo: ttft_p95 must be a time above 0"),
        ({"slo": "fast"}, "--slo: expected bounds by name"),
        ({"requests": 0}, "--requests"),
    ],
)
def test_a_mistake_is_one_sentence(settings: dict[str, Any], wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SpecbenchError, match=sentence):
        load_config(None, {**settings, **wrong})


def test_a_missing_trace_is_named_before_anything_starts(settings: dict[str, Any], tmp_path: Path) -> None:
    config = load_config(None, {**settings, "arrival": "trace:nowhere.csv"})
    with pytest.raises(SpecbenchError, match=r"nowhere\.csv"):
        prepare(config, tmp_path / "run", resume=False, note=lambda text: None)


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_lossy_engine_is_refused_unless_asked_for_and_then_named(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3")
    one = {**settings, "request_rate": [40], "requests": 4, "allow_lossy": allowed}
    if not allowed:
        with pytest.raises(SpecbenchError, match=r"SGLANG_SIMULATE_ACC_LEN=3 makes up the acceptance.*--allow-lossy"):
            await sweep(one, tmp_path / "run")
        assert not (tmp_path / "run").exists()
        return
    summary = summarize(await sweep(one, tmp_path / "run"))
    for cell in summary.cells:
        assert "lossy" in {mark.code for mark in cell.marks}
        assert not cell.is_evidence
