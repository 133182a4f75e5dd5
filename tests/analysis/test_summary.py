"""Whole runs summed up: every figure of a row against what the run was built from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_run import NGRAM, failed, measurement, output_of, request, store

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.arm import Arm
from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.cells import summarize_cell
from specbench.analysis.cost import Economics
from specbench.analysis.summary import RunSummary, summarize
from specbench.backends.base import EngineCounters
from specbench.equivalence.greedy import judge_baseline
from specbench.speculation import AGAIN, AS_DEPLOYED, BASELINE, Speculation
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore
from specbench.telemetry.sample import Sample

LOOP = (1, 2, 3, *[9] * 38)


def row(summary: RunSummary, method: str, batch_size: int = 1) -> CellSummary:
    return next(c for c in summary.cells if (c.method, c.batch_size) == (method, batch_size))


def codes(cell: CellSummary) -> set[str]:
    return {mark.code for mark in cell.marks}


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


def test_another_price_needs_no_new_measurement(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)], gpu_price=None)
    assert row(summarize(run), "ngram").cost_per_million_output_tokens is None
    priced = summarize(run, pricing={"gpu_price": 3.0, "currency": "BRL"})
    assert row(priced, "ngram").cost_per_million_output_tokens == pytest.approx(3.0 / (205 * 3600) * 1e6)
    assert (row(priced, "ngram").currency, priced.manifest["config"]["gpu_price"]) == ("BRL", 3.0)
    assert summarize(run).manifest["config"]["gpu_price"] is None


def test_only_batch_sizes_that_gain_are_said_to_gain(tmp_path: Path) -> None:
    noisy = [measurement(replicate=r) for r in (0, 1)]
    noisy += [measurement(NGRAM, accepted=3, replicate=r, steps=(step,)) for r, step in enumerate((0.012, 0.045))]
    clear = [measurement(batch_size=2, requests=16, replicate=r) for r in (0, 1)]
    clear += [measurement(NGRAM, 2, requests=16, accepted=3, replicate=r) for r in (0, 1)]
    text = summarize(store(tmp_path, [*noisy, *clear])).text
    assert text.startswith(
        "Enable speculative decoding with ngram and gamma 4: it gains at batch size 2; not resolved at 1."
    )
    assert "At batch size 2 a million output tokens cost" in text


def test_a_gain_at_large_batches_alone_is_said_where_it_cannot_be_enabled(tmp_path: Path) -> None:
    run = [
        measurement(),
        measurement(NGRAM, accepted=0, steps=(0.02,)),
        measurement(batch_size=2, requests=16),
        measurement(NGRAM, 2, requests=16, accepted=3),
    ]
    summary = summarize(store(tmp_path, run))
    assert summary.decision.recommendation == "DISABLE"
    assert "none gains from the smallest batch size on" in summary.text


def test_settings_that_the_engine_changed_stand_beside_both_arms(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)])
    run.write_json("launches/none-r0.json", {"differences": ["max_batch_size is 48, asked was 64"]})
    summary = summarize(run)
    assert all("settings_differ" in codes(cell) for cell in summary.cells)


def test_one_changed_token_is_divergent_until_its_margin_explains_it(tmp_path: Path) -> None:
    changed = (*output_of("p003", 20), 7, *output_of("p003", 41)[21:])
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3, outputs={3: changed})])
    cell = row(summarize(run), "ngram")
    assert (cell.equivalence, cell.divergent_requests) == ("DIVERGENT", 1)
    assert "not probed" in cell.equivalence_detail
    assert cell.unprobed_requests == 1
    assert summarize(run).decision.recommendation == "NOT ENOUGH EVIDENCE"
    probed = {
        "cell": "chat-ngram-g4-b1",
        "prompt_id": "p003",
        "index": 3,
        "position": 20,
        "baseline_token": output_of("p003", 41)[20],
        "token": 7,
        "margin": 0.01,
    }
    unlikely = {"epsilon": 0.1, "epsilon_pairs": 100, "margins": [{**probed, "margin": None}]}
    run.write_json("equivalence.json", unlikely)
    assert row(summarize(run), "ngram").unprobed_requests == 0
    assert summarize(run).decision.recommendation == "DISABLE"
    run.write_json("equivalence.json", {"epsilon": 0.1, "epsilon_pairs": 100, "margins": [probed]})
    cell = row(summarize(run), "ngram")
    assert (cell.equivalence, cell.near_tie_requests, cell.divergent_requests) == ("NEAR_TIE", 1, 0)
    assert summarize(run).decision.recommendation == "ENABLE"


def test_outputs_at_temperature_are_checked_under_coupled_verification_only(tmp_path: Path) -> None:
    run = [measurement(temperature=0.8), measurement(NGRAM, accepted=3, temperature=0.8)]
    assert row(summarize(store(tmp_path / "a", run)), "ngram").equivalence == "NOT_CHECKED"
    coupled = summarize(store(tmp_path / "b", run, verification="coupled"))
    assert row(coupled, "ngram").equivalence == "EXACT"


def test_a_baseline_that_differs_from_itself_is_the_noise_floor_and_not_a_bug(tmp_path: Path) -> None:
    other = {2: (*output_of("p002", 30), 7)}
    run = [measurement(), measurement(repeat=1, outputs=other), measurement(NGRAM, accepted=3)]
    summary = summarize(store(tmp_path, run))
    assert (summary.noise_floor.compared, summary.noise_floor.differing) == (8, 1)
    assert row(summary, "none").equivalence == "NOT_CHECKED"
    assert row(summary, "ngram").equivalence == "EXACT"
    assert "baseline differs from itself in 12.5%" in summary.text


def test_two_workloads_get_an_answer_each(tmp_path: Path) -> None:
    run = [
        measurement(workload="code"),
        measurement(NGRAM, workload="code", accepted=3, steps=(0.012,)),
        measurement(),
        measurement(NGRAM, accepted=0, steps=(0.012,)),
    ]
    summary = summarize(store(tmp_path, run))
    assert {name: d.recommendation for name, d in summary.by_workload.items()} == {"code": "ENABLE", "chat": "DISABLE"}
    assert summary.decision.recommendation == "DISABLE"
    assert "chat: DISABLE; code: ENABLE (ngram γ4)" in summary.text


def test_failures_are_results(tmp_path: Path) -> None:
    run = [
        measurement(),
        failed(),
        measurement(batch_size=2),
        measurement(NGRAM, 2, accepted=3),
        failed(NGRAM, 2, repeat=1),
    ]
    summary = summarize(store(tmp_path, run))
    dead = row(summary, "ngram")
    assert (dead.status, dead.error) == ("failed", "the server ended with exit code 137.")
    half = row(summary, "ngram", 2)
    assert (half.status, half.measurements) == ("ok", 1)
    assert "failed_measurements" in codes(half)
    assert [f.cell for f in summary.failures] == ["chat-ngram-g4-b1", "chat-ngram-g4-b2"]
    assert [f.measurement for f in summary.failures] == ["chat-ngram-g4-b1-r0k0", "chat-ngram-g4-b2-r0k1"]
    assert summary.failures[0].log_tail == "loading weights\n<b>Killed</b> | out of memory"


@pytest.mark.parametrize(
    "measurements",
    [
        [],
        [measurement()],
        [failed(BASELINE), failed()],
        [failed(BASELINE), measurement(NGRAM, accepted=3)],
        [measurement(batch_size=8), measurement(NGRAM, 8, accepted=3)],
        [measurement(traces=()), measurement(NGRAM, traces=())],
        [
            measurement(traces=tuple(request(i, token_ids=None, error="timeout", output_tokens=0) for i in range(4))),
            measurement(NGRAM, traces=tuple(request(i, error="timeout") for i in range(4))),
        ],
        [
            measurement(traces=tuple(request(i, due=0.5 * i, length=1) for i in range(8))),
            measurement(NGRAM, traces=tuple(request(i, due=0.5 * i, length=1, gamma=4) for i in range(8))),
        ],
    ],
    ids=[
        "nothing",
        "baseline alone",
        "all failed",
        "no baseline",
        "too short",
        "no request",
        "only errors",
        "one token",
    ],
)
def test_a_poor_run_gives_a_poor_summary_and_no_traceback(tmp_path: Path, measurements: list[Measurement]) -> None:
    summary = summarize(store(tmp_path, measurements, gpu_price=None))
    assert summary.decision.recommendation == "NOT ENOUGH EVIDENCE"
    assert "Not enough evidence" in summary.text
    json.dumps(summary.to_json(), allow_nan=False)


def test_missing_token_ids_leave_outputs_unchecked(tmp_path: Path) -> None:
    def anonymous(m: Measurement) -> tuple[Any, ...]:
        values = ({f: getattr(t, f) for f in t.__dataclass_fields__} for t in m.traces)
        return tuple(type(m.traces[0])(**{**v, "token_ids": None}) for v in values)

    plain, fast = measurement(), measurement(NGRAM, accepted=3)
    run = [measurement(traces=anonymous(plain)), measurement(NGRAM, traces=anonymous(fast), counters=fast.counters)]
    summary = summarize(store(tmp_path, run))
    assert {c.equivalence for c in summary.cells} == {"NOT_CHECKED"}
    assert row(summary, "ngram").speedup == pytest.approx(0.5 / 0.2)
    assert "was not checked" in summary.text


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


def test_a_cell_that_is_no_evidence_saves_nothing_and_breaks_even_nowhere(tmp_path: Path) -> None:
    config = {"gpu_price": 2.0, "engineering_cost": 1000, "tokens_per_month": 1e12}
    runs = [
        measurement(batch_size=1), measurement(NGRAM, accepted=1, steps=(0.002,)),  # implausible
        measurement(batch_size=2), measurement(NGRAM, 2, accepted=3),
    ]  # fmt: skip
    summary = summarize(store(tmp_path, runs, **config))
    void, sound = (cell for cell in summary.cells if not cell.is_baseline)
    assert "speedup_above_acceptance" in {mark.code for mark in void.marks}
    assert (void.saving_percent, void.gpus_saved, void.payback_months) == (None, None, None)
    assert sound.gpus_saved is not None
    assert sound.gpus_saved > 0
    assert sound.saving_percent == pytest.approx((1 - 1 / (sound.speedup or 0)) * 100)
    (crossing,) = (b.crossing for b in summary.break_even)
    assert "above the largest measured batch size (2)" in crossing.text


def test_gpus_are_saved_only_where_a_gain_is_shown(tmp_path: Path) -> None:
    config = {"gpu_price": 2.0, "engineering_cost": 1000, "tokens_per_month": 1e12}
    runs = [
        measurement(arm, accepted=accepted, steps=(step,), replicate=replicate)
        for replicate, faster in enumerate((0.004, 0.012))
        for arm, accepted, step in ((BASELINE, 0, 0.01), (NGRAM, 1, faster))
    ]
    cell = summarize(store(tmp_path, runs, **config)).cells[1]
    assert cell.speedup_ci_low is not None
    assert cell.speedup_ci_low < 1 < (cell.speedup or 0)
    assert (cell.gpus_saved, cell.payback_months) == (None, None)


def test_a_run_that_is_not_complete_says_so(tmp_path: Path) -> None:
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)])
    run.write_json("manifest.json", {**run.manifest, "plan": {"launches": 2, "measurements": 24}})
    assert "22 planned measurements are missing" in summarize(RunStore.open(run.path)).text


def test_the_best_of_several_arms_is_one_that_can_be_believed(tmp_path: Path) -> None:
    other = Speculation("ngram", 2)
    runs = [
        measurement(), measurement(NGRAM, accepted=1, steps=(0.001,)), measurement(other, accepted=0, steps=(0.011,)),
    ]  # fmt: skip
    text = summarize(store(tmp_path, runs)).text
    assert "ngram γ2" in text
    assert "ngram γ4" not in text


def test_the_baseline_measured_again_is_the_noise_floor_and_decides_nothing(tmp_path: Path) -> None:
    """Seemingly faster than itself by 2 to 4 %, with an interval above 1: that is what noise looks like."""
    runs = [
        m
        for r, step in enumerate((0.0096, 0.0098, 0.0097))
        for m in (measurement(replicate=r), measurement(AGAIN, replicate=r, steps=(step,)))
    ]
    summary = summarize(store(tmp_path, runs, gpu_price=2.0))
    assert [c.label for c in summary.cells] == ["none", "none, again"]
    _, again = summary.cells
    assert again.speedup is not None
    assert again.speedup == pytest.approx(1.024, abs=0.002)
    assert (again.speedup_ci_low or 0) > 1
    assert again.speedup_sd_percent == pytest.approx(0.8, abs=0.05)
    assert again.equivalence == "EXACT"
    assert (again.is_baseline, again.is_speculative, again.saving_percent) == (False, False, None)
    assert summary.decision.method is None
    assert summary.break_even == ()
    assert "Noise floor of speed: against itself the baseline gives 1.02×" in summary.text
    assert "at batch size 1 (pairs scatter by 0.8%)" in summary.text


def test_replicates_added_until_it_suits_get_an_interval_that_allows_for_it(tmp_path: Path) -> None:
    runs = [
        m
        for r, step in enumerate((0.01, 0.0102, 0.0101, 0.0099, 0.0103))
        for m in (measurement(replicate=r), measurement(NGRAM, accepted=3, replicate=r, steps=(step,)))
    ]
    fixed = summarize(store(tmp_path / "fixed", runs)).cells[1]
    looked = summarize(store(tmp_path / "looked", runs, until_ci=0.03))
    assert fixed.speedup_ci_basis == "replicates"
    assert looked.cells[1].speedup_ci_basis == "always-valid"
    assert looked.cells[1].speedup == fixed.speedup
    assert looked.cells[1].speedup_ci_low < fixed.speedup_ci_low  # type: ignore[operator]
    assert "always-valid 95% interval" in looked.text
    begun = summarize(store(tmp_path / "begun", runs[:6], until_ci=0.03))
    assert (begun.cells[1].speedup_ci_low, begun.decision.recommendation) == (None, "NOT ENOUGH EVIDENCE")
    assert "so few launches bound no speedup while one looks after each" in begun.text
    assert "always-valid" not in summarize(store(tmp_path / "again", runs)).text


def test_an_as_deployed_baseline_stands_beside_and_decides_nothing(tmp_path: Path) -> None:
    runs = [measurement(), measurement(AS_DEPLOYED, steps=(0.008,)), measurement(NGRAM, accepted=3, steps=(0.02,))]
    summary = summarize(store(tmp_path, runs))
    assert [c.label for c in summary.cells] == ["none", "none, as deployed", "ngram γ4"]
    matched, deployed, ngram = summary.cells
    assert (matched.speedup, matched.is_baseline, deployed.is_baseline) == (1.0, True, False)
    assert deployed.speedup == pytest.approx((0.1 + 40 * 0.01) / (0.1 + 40 * 0.008), rel=1e-6)
    assert deployed.equivalence == "EXACT"
    assert deployed.mean_acceptance_length is None
    assert ngram.speedup == pytest.approx((0.1 + 40 * 0.01) / (0.1 + 10 * 0.02), rel=1e-6)
    assert summary.decision.method in (None, "ngram")
    assert {b.method for b in summary.break_even} == {"ngram"}
    assert "Without speculation the engine's own defaults give 1.19×" in summary.text


def test_a_simulated_run_says_so_and_no_other_does(tmp_path: Path) -> None:
    real = store(tmp_path / "real", [measurement()])
    assert summarize(real).headline == "NOT ENOUGH EVIDENCE"
    assert summarize(real).to_json()["simulated"] is False
    made_up = store(tmp_path / "simulated", [measurement()])
    made_up.write_json("manifest.json", {**made_up.manifest, "simulated": {"scenario": "toy"}})
    summary = summarize(RunStore.open(made_up.path))
    assert summary.headline == "SIMULATED: NOT ENOUGH EVIDENCE"
    assert summary.to_json()["simulated"] is True
