"""Latency of requests whose times are known by construction."""

from __future__ import annotations

import pytest
from known_run import NGRAM, measurement, request

from specbench.analysis.latency import latencies, percentile, steady_requests
from specbench.analysis.throughput import throughput
from specbench.replay.window import Window


def test_each_latency_follows_from_prefill_and_step_time() -> None:
    found = latencies([request(gamma=4, accepted=3, prefill=0.1, step=0.02, length=41)])
    assert found.ttft == pytest.approx((0.1,))
    assert found.tpot == pytest.approx((0.02 / 4,))
    assert found.itl == pytest.approx((0.02 / 4,) * 40)
    assert found.e2e == pytest.approx((0.1 + 10 * 0.02,))
    assert found.mean_tpot == pytest.approx(0.02 / 4)


def test_mean_tpot_weighs_tokens_where_its_median_weighs_requests() -> None:
    found = latencies([request(step=0.01, length=11), request(step=0.03, length=31)])
    assert percentile(found.tpot, 50) == pytest.approx(0.02)
    assert found.mean_tpot == pytest.approx((10 * 0.01 + 30 * 0.03) / 40)


def test_an_answer_of_one_chunk_has_no_tpot() -> None:
    found = latencies([request(length=1)])
    assert (found.tpot, found.itl, found.mean_tpot) == ((), (), None)
    assert found.ttft == pytest.approx((0.1,))


def test_only_sound_requests_that_end_in_the_window_count() -> None:
    traces = [
        request(0, due=0.0, length=11),  # ends at .2, with the window's start: the first cohort
        request(1, due=0.2, length=11),
        request(2, due=0.4, length=11, error="connection reset"),
        request(3, due=0.6, token_ids=(1, *[2] * 30)),
        request(4, due=2.0, length=11),
    ]
    assert [t.index for t in steady_requests(traces, Window(0.2, 2.0, 4.0))] == [1]
    assert [t.index for t in steady_requests(traces, None)] == [0, 1, 4]


def test_the_first_cohort_of_a_closed_loop_is_left_out() -> None:
    m = measurement(NGRAM, 2, requests=10, accepted=1)
    kept = steady_requests(m.traces, throughput(m).window)
    assert [t.index for t in kept] == [*range(2, 10)]


def test_a_percentile_of_nothing_is_none() -> None:
    assert percentile((), 50) is None
    assert percentile((1.0, 2.0, 3.0), 50) == 2.0
