"""Throughput of closed loops whose rate is known by construction."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import NGRAM, measurement

from specbench.analysis.throughput import mean_over_replicates, throughput


@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_steady_throughput_is_slots_times_tokens_over_request_time(batch_size: int) -> None:
    m = measurement(NGRAM, batch_size, requests=8 * batch_size, accepted=3, steps=(0.02,), prefill=0.1)
    seconds = 0.1 + 10 * 0.02  # 40 tokens after the prefill's, 4 a step
    assert throughput(m).steady == pytest.approx(batch_size * 41 / seconds)


def test_drain_lowers_the_whole_run_but_not_the_steady_window() -> None:
    m = measurement(batch_size=4, requests=17)
    speed = throughput(m)
    assert speed.steady is not None
    assert speed.whole_run is not None
    assert speed.whole_run < 0.9 * speed.steady


def test_a_measurement_without_a_refill_has_only_a_whole_run_figure() -> None:
    speed = throughput(measurement(batch_size=4, requests=4))
    assert (speed.steady, speed.window) == (None, None)
    assert speed.whole_run == pytest.approx(4 * 41 / 0.5)


def test_no_request_is_no_throughput() -> None:
    speed = throughput(measurement(requests=1, traces=()))
    assert (speed.steady, speed.whole_run) == (None, None)


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.1, 1e4)), min_size=1, max_size=12))
def test_the_mean_lies_within_the_values_and_scales_with_them(values: list[tuple[int, float]]) -> None:
    mean = mean_over_replicates(values)
    assert mean is not None
    assert min(v for _, v in values) * 0.999 <= mean <= max(v for _, v in values) * 1.001
    assert mean_over_replicates((r, 2 * v) for r, v in values) == pytest.approx(2 * mean)


def test_a_replicate_weighs_the_same_however_many_repeats_it_has() -> None:
    assert mean_over_replicates([(0, 4.0), (0, 4.0), (0, 4.0), (1, 9.0), (1, None)]) == pytest.approx(6.0)
    assert mean_over_replicates([(0, None)]) is None
