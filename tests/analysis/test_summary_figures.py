"""Whole runs summed up: every figure of a row against what the run was built from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_run import NGRAM, codes, failed, measurement, request, row, store

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.arm import Arm
from specbench.analysis.cells import summarize_cell
from specbench.analysis.cost import Economics
from specbench.analysis.summary import summarize
from specbench.backends.base import EngineCounters
from specbench.equivalence.greedy import judge_baseline
from specbench.speculation import BASELINE, Speculation
from specbench.telemetry.sample import Sample

LOOP = (1, 2, 3, *[9] * 38)


def test_a_row_holds_what_the_run_was_built_from(tmp_path: Path) -> None:
    """40 tokens after the prefill's: 10 steps of 15 ms with 3 of 4 accepted, against 40 of 10 ms."""
    run = store(
        tmp_path,
        [
            measurement(phase_seconds={"prefill": 0.8, "verify": 3.2}, telemetry=[Sample(0.0, "host", 1_000, 90.0)]),
            measurement(
                NGRAM,
                accepted=3,
                steps=(0.015,),
                categories=("code", "chat"),
                phase_seconds={"prefill": 0.8, "draft": 0.2, "verify": 0.9, "accept": 0.1},
                telemetry=[Sample(0.0, "host", 3_000, 60.0), Sample(0.1, "host", 2_000, 80.0)],
            ),
        ],
        engineering_cost=7_300,
        tokens_per_month=1e9,
    )
    run.write_json("launches/ngram-g4-r0.json", {"kv_capacity_tokens": 4096, "differences": []})
    cell = row(summarize(run), "ngram")
    speedup = 0.5 / 0.25
    expected: dict[str, Any] = {
        "status": "ok",
        "requests": 8,
        "measurements": 1,
        "replicates": 1,
        "output_tokens_per_s": 41 / 0.25,
        "per_user_tokens_per_s": 4 / 0.015,
        "speedup": speedup,
        "speedup_ci_basis": "within one launch, by prompt",
        "speedup_without_degenerate": speedup,
        "mean_acceptance_length": 4.0,
        "mean_acceptance_length_per_draft": 4.0,
        "mean_acceptance_length_per_request": 4.0,
        "draft_acceptance_rate": 0.75,
        "alpha": 0.75,
        "position_acceptance": (1.0, 1.0, 1.0, 0.0),
        "conditional_acceptance": (1.0, 1.0, 1.0, 0.0),
        "acceptance_by_category": {"chat": 4.0, "code": 4.0},
        "acceptance_source": "requests",
        "counter_mean_acceptance_length": 4.0,
        "counter_difference_percent": 0.0,
        "ttft_ms_p50": 100.0,
        "tpot_ms_mean": 15 / 4,
        "tpot_ms_p95": 15 / 4,
        "itl_ms_p50": 15 / 4,
        "e2e_ms_p99": 250.0,
        "currency": "EUR",
        "cost_per_million_output_tokens": 2.0 / (164 * 3600) * 1e6,
        "saving_percent": 50.0,
        "gpus_needed": 3,  # 380.5 tokens/s needed
        "gpus_saved": 2,  # the baseline's 82 tokens/s take 5
        "payback_months": 7_300 / (730 * 2.0 * 2),
        "step_cost_ratio": (1.2 / 80) / (3.2 / 320),
        "step_cost_draft": (0.2 / 80) / (3.2 / 320),
        "step_cost_verify": (1.0 / 80) / (3.2 / 320),
        "step_cost_basis": "phases",
        "phase_percent": {"prefill": 40.0, "draft": 10.0, "verify": 45.0, "accept": 5.0},
        "telemetry_source": "host",
        "memory_bytes_peak": 3_000,
        "utilization_percent_mean": 70.0,
        "kv_capacity_tokens": 4096,
        "equivalence": "EXACT",
        "equivalence_prompts": 8,
        "marks": (),
    }
    for name, value in expected.items():
        assert getattr(cell, name) == (pytest.approx(value) if isinstance(value, float | tuple | dict) else value), name


def test_the_engines_kv_cache_is_shown_and_marked_where_it_bears_on_the_figures(tmp_path: Path) -> None:
    cache = {"kv_usage_peak": 0.75, "preemptions": 3, "prefix_cache_queries": 400, "prefix_cache_hits": 100}
    run = store(tmp_path, [measurement(counters=EngineCounters(**cache)), measurement(NGRAM, accepted=3)])
    full, unknown = row(summarize(run), "none"), row(summarize(run), "ngram")
    assert (full.kv_usage_peak_percent, full.preemptions, full.prefix_cache_hit_percent) == (75, 3, 25)
    assert {mark.code for mark in full.marks} == {"preempted", "prefix_cache_hits"}
    assert (unknown.kv_usage_peak_percent, unknown.preemptions, unknown.prefix_cache_hit_percent) == (None, None, None)


def test_the_baseline_is_its_own_reference(tmp_path: Path) -> None:
    cell = row(summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)])), "none")
    assert (cell.speedup, cell.speedup_ci_low, cell.speedup_ci_basis) == (1.0, 1.0, None)
    assert (cell.mean_acceptance_length, cell.saving_percent) == (None, None)
    assert (cell.equivalence, cell.marks) == ("EXACT", ())


def test_without_engine_phases_step_cost_comes_from_the_streams(tmp_path: Path) -> None:
    cell = row(summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3, steps=(0.015,))])), "ngram")
    assert (cell.step_cost_ratio, cell.step_cost_basis) == (pytest.approx(1.5), "tpot")
    alpha = cell.alpha_break_even
    assert alpha is not None
    assert sum(alpha**k for k in range(5)) == pytest.approx(1.5)


def test_degenerate_requests_are_counted_and_left_out_of_acceptance_and_latency(tmp_path: Path) -> None:
    honest = measurement(NGRAM, requests=12, accepted=1)
    looping = request(5, due=honest.traces[5].scheduled, gamma=4, accepted=4, step=0.001, token_ids=LOOP)
    traces = tuple(looping if t.index == 5 else t for t in honest.traces)
    run = [measurement(requests=12, outputs={5: LOOP}), measurement(NGRAM, traces=traces, counters=None)]
    cell = row(summarize(store(tmp_path, run)), "ngram")
    assert (cell.requests, cell.degenerate_requests) == (12, 1)
    assert cell.mean_acceptance_length == pytest.approx(2.0)
    assert cell.tpot_ms_p99 == pytest.approx(5.0)


def test_when_all_requests_loop_there_is_no_acceptance_and_a_mark(tmp_path: Path) -> None:
    loops = dict.fromkeys(range(8), LOOP)
    run = [measurement(outputs=loops), measurement(NGRAM, accepted=4, outputs=loops)]
    cell = row(summarize(store(tmp_path, run)), "ngram")
    assert (cell.mean_acceptance_length, cell.tpot_ms_p50, cell.speedup_without_degenerate) == (None, None, None)
    assert "all_degenerate" in codes(cell)
    assert cell.speedup is not None


def test_an_engine_that_says_nothing_of_acceptance_leaves_it_unknown(tmp_path: Path) -> None:
    silent = measurement(NGRAM, accepted=3, counters=None)
    traces = tuple(request(t.index, due=t.scheduled, gamma=4, accepted=3, acceptance=None) for t in silent.traces)
    cell = row(summarize(store(tmp_path, [measurement(), measurement(NGRAM, traces=traces, counters=None)])), "ngram")
    assert (cell.mean_acceptance_length, cell.alpha, cell.acceptance_source) == (None, None, None)
    assert cell.speedup == pytest.approx(0.5 / 0.2)
    assert cell.step_cost_ratio is None


def test_engine_counters_stand_in_for_requests_that_say_nothing(tmp_path: Path) -> None:
    full = measurement(NGRAM, accepted=3)
    traces = tuple(request(t.index, due=t.scheduled, gamma=4, accepted=3, acceptance=None) for t in full.traces)
    run = [measurement(), measurement(NGRAM, traces=traces, counters=full.counters)]
    cell = row(summarize(store(tmp_path, run)), "ngram")
    assert (cell.mean_acceptance_length, cell.alpha, cell.acceptance_source) == (4.0, 0.75, "counters")


def test_where_counters_tell_no_drafted_tokens_no_difference_is_shown(tmp_path: Path) -> None:
    partial = EngineCounters(AcceptanceCounts(80, None, 236))  # 4 of 240 fewer, which an end may have cut
    summary = summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3, counters=partial)]))
    cell = row(summary, "ngram")
    assert cell.counter_mean_acceptance_length != cell.mean_acceptance_length
    assert cell.counter_difference_percent is None
    assert "counters_differ" not in codes(cell)


def test_counters_of_other_traffic_void_the_cell(tmp_path: Path) -> None:
    foreign = EngineCounters(AcceptanceCounts(100, 400, 290))
    summary = summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3, counters=foreign)]))
    assert row(summary, "ngram").counter_difference_percent == pytest.approx(20.0)  # 80 steps, not 100
    assert "counters_differ" in codes(row(summary, "ngram"))
    assert summary.decision.recommendation == "NOT ENOUGH EVIDENCE"


def test_a_speedup_above_the_acceptance_length_is_implausible(tmp_path: Path) -> None:
    cell = row(summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=1, prefill=0.001)])), "ngram")
    assert "speedup_above_acceptance" in codes(cell)


def test_so_it_is_where_an_attached_server_does_not_tell_its_gamma(tmp_path: Path) -> None:
    fast = measurement(NGRAM, accepted=1, prefill=0.001)
    untold = replace(fast.cell, speculation=replace(NGRAM, gamma=0, attached=True))
    cell = row(summarize(store(tmp_path, [measurement(), replace(fast, cell=untold)])), "ngram")
    assert cell.gamma == 0
    assert "speedup_above_acceptance" in codes(cell)


def test_a_lagging_client_voids_the_cell(tmp_path: Path) -> None:
    run = [measurement(), measurement(NGRAM, accepted=3, client_lag_p99=0.02)]
    assert "client_lag" in codes(row(summarize(store(tmp_path, run)), "ngram"))


def test_what_voids_a_baseline_voids_the_cells_that_it_is_compared_with(tmp_path: Path) -> None:
    lagging = summarize(store(tmp_path / "lag", [measurement(client_lag_p99=0.02), measurement(NGRAM, accepted=3)]))
    assert "client_lag" in codes(row(lagging, "ngram"))
    plain = measurement()
    traces = tuple(request(t.index, due=t.scheduled, error="timeout") if t.index == 2 else t for t in plain.traces)
    failing = summarize(store(tmp_path / "fail", [measurement(traces=traces), measurement(NGRAM, accepted=3)]))
    assert "many_failed_requests" in codes(row(failing, "ngram"))
    for summary in (lagging, failing):
        assert summary.decision.recommendation == "NOT ENOUGH EVIDENCE"
        assert all("(none" in mark.text or "p99, none" in mark.text for mark in row(summary, "ngram").marks)


def test_short_drafts_have_a_length_to_break_even_and_no_alpha(tmp_path: Path) -> None:
    fast = measurement(NGRAM, accepted=3, steps=(0.015,))
    halved = tuple(
        replace(t, acceptance=replace(a, drafted=a.drafted // 2, per_step_drafted=None, per_step_accepted=None))
        for t in fast.traces
        if (a := t.acceptance)
    )
    cell = row(summarize(store(tmp_path, [measurement(), replace(fast, traces=halved, counters=None)])), "ngram")
    assert (cell.step_cost_ratio, cell.alpha_break_even) == (pytest.approx(1.5), None)


def test_chunks_are_counted_by_the_tokens_that_they_carried(tmp_path: Path) -> None:
    summary = summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)]))
    assert row(summary, "none").tokens_per_chunk == {1: 8 * 41}
    assert row(summary, "ngram").tokens_per_chunk == {1: 8, 4: 8 * 10}


def test_a_short_cell_names_its_whole_run_figures(tmp_path: Path) -> None:
    run = [measurement(batch_size=8), measurement(NGRAM, 8, accepted=3)]
    cell = row(summarize(store(tmp_path, run)), "ngram", 8)
    assert (cell.output_tokens_per_s, cell.speedup) == (None, None)
    assert cell.run_output_tokens_per_s == pytest.approx(8 * 41 / 0.2)
    assert cell.run_speedup == pytest.approx(0.5 / 0.2)
    assert "no_steady_window" in codes(cell)


def test_json_has_the_stable_keys_and_plain_values(tmp_path: Path) -> None:
    report = summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3), failed(NGRAM, 2)])).to_json()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert [*report] == [
        "run",
        "simulated",
        "machine",
        "verdict",
        "cells",
        "break_even",
        "equivalence",
        "early_stop",
        "failures",
        "manifest",
    ]
    assert report["verdict"]["recommendation"] == "ENABLE UP TO BATCH 1"
    assert report["verdict"]["up_to_batch_size"] == 1
    assert report["break_even"][0]["gains"] == "everywhere"
    assert report["manifest"]["fingerprint"] == "01" * 32


def test_rows_are_ordered_baseline_first_then_gamma_and_batch_size(tmp_path: Path) -> None:
    arms = [Speculation("ngram", 4), Speculation("ngram", 2), BASELINE]
    summary = summarize(store(tmp_path, [measurement(arm, b) for arm in arms for b in (2, 1)]))
    assert [(c.label, c.batch_size) for c in summary.cells] == [
        ("none", 1),
        ("none", 2),
        ("ngram γ2", 1),
        ("ngram γ2", 2),
        ("ngram γ4", 1),
        ("ngram γ4", 2),
    ]


@settings(max_examples=25, deadline=None)
@given(
    batch_size=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=6),
    accepted=st.integers(0, 4),
    step=st.floats(0.01, 0.03),
)
def test_bounds_hold_in_any_closed_loop(batch_size: int, lengths: list[int], accepted: int, step: float) -> None:
    loop = {"requests": 6 * batch_size, "lengths": lengths}
    base = Arm.of(measurement(batch_size=batch_size, **loop).cell, [measurement(batch_size=batch_size, **loop)])
    fast = measurement(NGRAM, batch_size, accepted=accepted, steps=(step,), **loop)
    cell = summarize_cell(
        Arm.of(fast.cell, [fast]), base, judge_baseline([fast.traces], seeded=True), Economics(gpu_price=1.0), {}
    )
    assert cell.mean_acceptance_length is None or 1 <= cell.mean_acceptance_length <= accepted + 1
    assert not codes(cell) & {"acceptance_above_gamma", "token_identity", "counters_differ", "client_lag"}
    if cell.speedup is not None:
        assert cell.speedup_ci_low is not None
        assert cell.speedup_ci_high is not None
        assert cell.speedup_ci_low <= cell.speedup * (1 + 1e-9)
        assert cell.speedup <= cell.speedup_ci_high * (1 + 1e-9)
    for name in ("ttft", "tpot", "itl", "e2e"):
        values = [getattr(cell, f"{name}_ms_p{q}") for q in (50, 90, 95, 99)]
        assert None in values or values == sorted(values)


def test_a_step_is_told_part_by_part_with_the_share_of_the_memorys_speed(tmp_path: Path) -> None:
    """100 passes in 2 s of verifying and accepting, over 3 GB at 2 GB/s."""
    seconds = {"prefill": 5.0, "draft": 0.5, "verify": 1.5, "accept": 0.5, "host": 0.1}
    told = EngineCounters(phase_seconds=seconds, passes=100, verify_bytes=3 * 10**9, read_bytes_per_s=2e9)
    run = store(tmp_path, [measurement(counters=told), measurement(NGRAM, accepted=3)])
    full, unknown = row(summarize(run), "none"), row(summarize(run), "ngram")
    assert full.step_ms == pytest.approx({"draft": 5.0, "verify": 15.0, "accept": 5.0, "host": 1.0})
    assert full.verify_bandwidth_percent == pytest.approx(75)
    assert (unknown.step_ms, unknown.verify_bandwidth_percent) == (None, None)
