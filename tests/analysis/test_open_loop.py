"""Open-loop cells: latency against the baseline's, goodput, and no speedup that is the arrivals' own."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from known_run import NGRAM, measurement, store

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.open_loop import completed_rate, latency_ratio, offered_rate, send_lag
from specbench.analysis.summary import RunSummary, summarize
from specbench.speculation import BASELINE, Speculation
from specbench.store.measurement import Measurement


def open_loop(speculation: Speculation = BASELINE, *, rate: float = 4.0, replicate: int = 0, step: float = 0.01):
    """Eight requests that come `1/rate` apart and take 0.1 s and 40 steps each (with γ 4, 10 steps of 4 tokens)."""
    m = measurement(speculation, 8, accepted=3 if speculation.gamma else 0, steps=(step,), replicate=replicate)
    shifted = []
    for i, t in enumerate(m.traces):
        due = i / rate
        moved = {name: getattr(t, name) + due for name in ("scheduled", "sent", "finished")}
        shifted.append(replace(t, **moved, chunk_times=tuple(at + due for at in t.chunk_times)))
    cell = replace(m.cell, request_rate=rate)
    return replace(m, id=f"{cell.id}-r{replicate}k0", cell=cell, traces=tuple(shifted), finished=10.0)


def row(summary: RunSummary, method: str) -> CellSummary:
    return next(c for c in summary.cells if c.method == method)


def test_a_row_shows_latency_and_goodput_and_no_speedup(tmp_path: Path) -> None:
    """Baseline: 0.1 + 40 × 0.01 = 0.5 s; with speculation 0.1 + 10 × 0.01 = 0.2 s."""
    runs = [open_loop(s, replicate=r) for r in (0, 1) for s in (BASELINE, NGRAM)]
    summary = summarize(store(tmp_path, runs, slo={"e2e_p95": 0.3, "ttft_p95": 0.5}))
    plain, cell = row(summary, "none"), row(summary, "ngram")
    for nothing in (
        "speedup",
        "speedup_ci_low",
        "run_speedup",
        "output_tokens_per_s",
        "cost_per_million_output_tokens",
    ):
        assert getattr(plain, nothing) is None
        assert getattr(cell, nothing) is None
    assert (cell.request_rate, cell.offered_requests_per_s) == (4.0, pytest.approx(4.0))
    assert cell.requests_per_s == pytest.approx(4.0)
    assert cell.e2e_ms_p99 == pytest.approx(200)
    assert (plain.latency_speedup, cell.latency_speedup) == (1.0, pytest.approx(2.5))
    assert cell.latency_speedup_ci_low == pytest.approx(2.5)
    assert (plain.goodput_requests_per_s, plain.slo_met) == (0.0, False)
    assert (cell.goodput_percent, cell.slo_met) == (100.0, True)
    assert cell.goodput_requests_per_s == pytest.approx(4.0)
    assert cell.send_lag_ms_p99 == 0
    assert cell.equivalence == "EXACT"
    assert not {m.code for m in cell.marks} & {"no_steady_window", "no_baseline"}


def test_the_verdict_says_that_throughput_is_the_arrivals(tmp_path: Path) -> None:
    runs = [open_loop(s, replicate=r) for r in (0, 1) for s in (BASELINE, NGRAM)]
    summary = summarize(store(tmp_path, runs, slo={"e2e_p95": 0.3}))
    assert summary.decision.method is None
    assert "throughput is theirs and decides nothing" in summary.text
    assert "2.50× at 4 requests/s with ngram γ4 (100% within the SLO)" in summary.text
    assert "Outputs are identical" in summary.text


def test_each_rate_is_compared_with_its_own_baseline(tmp_path: Path) -> None:
    runs = [open_loop(s, rate=r, step=0.01 * r) for r in (1.0, 2.0) for s in (BASELINE, NGRAM)]
    summary = summarize(store(tmp_path, runs))
    found = {(c.method, c.request_rate): c.latency_speedup for c in summary.cells}
    assert found["ngram", 1.0] == pytest.approx(0.5 / 0.2)
    assert found["ngram", 2.0] == pytest.approx(0.9 / 0.3)
    assert [c.request_rate for c in summary.cells] == [1.0, 2.0, 1.0, 2.0]


def slower(m: Measurement, factor: float) -> Measurement:
    return replace(
        m, traces=tuple(replace(t, finished=t.scheduled + factor * (t.finished - t.scheduled)) for t in m.traces)
    )


def test_a_ratio_is_the_geometric_mean_over_replicates_and_one_launch_has_no_interval() -> None:
    pairs = [(open_loop(replicate=r), slower(open_loop(replicate=r), factor)) for r, factor in ((0, 2.0), (1, 8.0))]
    both, one = latency_ratio(pairs), latency_ratio(pairs[:1])
    assert both is not None
    assert one is not None
    assert both.value == pytest.approx(4.0)
    assert both.interval is not None
    assert math.sqrt(both.interval.low * both.interval.high) == pytest.approx(4.0)
    assert (one.value, one.interval) == (pytest.approx(2.0), None)
    assert latency_ratio([]) is None


def test_a_request_that_failed_in_one_arm_is_left_out_of_both() -> None:
    arm, base = open_loop(), open_loop()
    cut = replace(arm.traces[0], error="the connection broke", finished=100.0)
    found = latency_ratio([(replace(arm, traces=(cut, *arm.traces[1:])), base)])
    assert found is not None
    assert found.value == pytest.approx(1.0)


def test_rates_and_lags_are_of_the_traces() -> None:
    traces = open_loop(rate=5.0).traces
    assert offered_rate(traces) == pytest.approx(5.0)
    late = [replace(t, sent=t.scheduled + 0.02) for t in traces]
    assert send_lag(late, 99) == pytest.approx(0.02)
    failed = [replace(t, error="no") if t.index else t for t in traces]
    assert completed_rate(failed) == pytest.approx(5.0 / 8)
    assert (offered_rate([]), offered_rate(traces[:1]), completed_rate([]), send_lag([], 99)) == (None,) * 4


@pytest.mark.parametrize(("latencies", "served"), [((0.5,) * 8, 5.0), ((1.5,) + (0.2,) * 7, 5.0), ((0.0, 1.4), 2.5)])
def test_what_is_served_is_what_is_offered_or_less(latencies: tuple[float, ...], served: float) -> None:
    """Served steadily, with a slow first request, and by a server that falls behind."""
    due = open_loop(rate=5.0).traces
    growing = np.linspace(latencies[0], latencies[-1], 8) if len(latencies) == 2 else latencies
    traces = [replace(t, finished=t.scheduled + wait) for t, wait in zip(due, growing, strict=True)]
    assert completed_rate(traces) == pytest.approx(served)
