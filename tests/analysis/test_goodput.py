"""Goodput counts the requests that were served as promised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import NGRAM, measurement, request, store

from specbench.analysis.goodput import Slo, goodput
from specbench.analysis.latency import latencies
from specbench.analysis.summary import summarize
from specbench.replay.window import Window


def slo(**bounds: float) -> Slo:
    return Slo.from_config({"slo": bounds})


def served(*seconds_to_first: float):
    """Requests due one second apart: a TTFT as given, then 40 steps of 10 ms."""
    return [request(i, due=float(i), prefill=wait) for i, wait in enumerate(seconds_to_first)]


def test_a_request_must_keep_every_bound() -> None:
    trace = request(prefill=0.3, step=0.01)  # TTFT 0.3, TPOT 0.01, E2E 0.7
    assert slo(ttft_p95=0.3001, tpot_p95=0.0101, e2e_p99=0.7001).meets(trace)
    assert not slo(ttft_p95=0.29, tpot_p95=0.0101).meets(trace)
    assert not slo(ttft_p95=0.3001, tpot_p95=0.009).meets(trace)
    assert not slo(e2e_p50=0.69).meets(trace)
    assert not slo(ttft_p95=10.0).meets(replace(trace, error="the connection broke"))
    assert slo(tpot_p99=1e-9).meets(request(length=1))


def test_the_loosest_percentile_of_a_metric_bounds_a_request() -> None:
    assert slo(ttft_p50=0.1, ttft_p99=0.5).meets(request(prefill=0.3))


def test_goodput_is_well_served_requests_over_the_time_of_all() -> None:
    traces = served(0.1, 0.6, 0.1, 0.1)
    found = goodput(traces, None, slo(ttft_p95=0.5))
    assert found is not None
    assert found.requests_per_s == pytest.approx(3 / 3.5)  # first due at 0, last end at 3 + 0.1 + 0.4
    assert found.share == pytest.approx(0.75)


def test_in_a_steady_window_those_that_end_in_it_count() -> None:
    found = goodput(served(0.1, 0.6, 0.1, 0.1), Window(0.6, 2.6, 1.0), slo(ttft_p95=0.5))
    assert found is not None
    assert (found.requests_per_s, found.share) == (pytest.approx(1 / 2), pytest.approx(1 / 2))


def test_a_closed_loop_has_goodput_in_its_steady_window(tmp_path: Path) -> None:
    """Requests of .5 s and, with 4 tokens a step, of .2 s, one at a time: 2 and 5 per second."""
    run = store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)], slo={"e2e_p99": 0.51, "tpot_p95": 0.005})
    plain, ngram = summarize(run).cells
    assert (plain.goodput_percent, plain.slo_met, plain.goodput_requests_per_s) == (0, False, 0)
    assert (ngram.goodput_percent, ngram.slo_met) == (100, True)
    assert ngram.goodput_requests_per_s == pytest.approx(5)
    assert ngram.latency_speedup is None


def test_without_a_promise_there_is_no_goodput() -> None:
    assert goodput(served(0.1), None, slo()) is None
    assert goodput([], None, slo(ttft_p95=1.0)) is None
    assert slo().met_by(latencies(served(0.1))) is None


@pytest.mark.parametrize(("bound", "met"), [(0.15, True), (0.09, False)])
def test_a_slo_is_met_when_its_percentiles_are(bound: float, met: bool) -> None:
    """One of twenty waits long: the median keeps a bound that the 99th percentile does not."""
    found = latencies(served(*[0.1] * 19, 2.0))
    assert slo(ttft_p50=bound).met_by(found) is met
    assert slo(ttft_p50=bound, ttft_p99=1.0).met_by(found) is False


@given(st.lists(st.floats(0.001, 5), min_size=1, max_size=20), st.floats(0.001, 5), st.floats(1, 3))
def test_a_looser_promise_is_never_kept_less_often(waits: list[float], bound: float, times: float) -> None:
    strict, loose = (goodput(served(*waits), None, slo(ttft_p95=b)) for b in (bound, bound * times))
    assert strict is not None
    assert loose is not None
    assert strict.requests_per_s <= loose.requests_per_s
    assert 0 <= strict.share <= 1
