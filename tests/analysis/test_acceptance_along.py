"""Acceptance along the output and over the context, against requests whose steps are known."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import NGRAM, counts, measurement, request, store

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.acceptance_along import (
    acceptance_histogram,
    by_context_length,
    by_output_position,
    suspended_share,
)
from specbench.analysis.summary import summarize
from specbench.replay.records import RequestAcceptance, RequestTrace


def steps(*accepted: int, prompt: int | None = 20) -> RequestTrace:
    told = RequestAcceptance(len(accepted), 4 * len(accepted), sum(accepted), (4,) * len(accepted), accepted)
    return request(length=1 + len(accepted) + sum(accepted), prompt_tokens=prompt, acceptance=told)


def test_a_step_belongs_where_it_began() -> None:
    """Output tokens before each step: 1, 6, 11, 16, 17, 18; from the fourth on, nothing is accepted."""
    trace = steps(4, 4, 4, 0, 0, 0)
    assert by_output_position([trace]) == {"0-15": 5.0, "16-63": 1.0}
    assert by_context_length([trace]) == {"16-63": pytest.approx(1 + 12 / 6)}
    assert by_context_length([steps(4, 4, prompt=1_020), steps(0, prompt=5_000)]) == {
        "256-1023": 5.0,  # 1,021 tokens
        "1024-4095": 5.0,  # 1,026
        "4096-16383": 1.0,
    }


def test_what_an_engine_does_not_list_has_no_place() -> None:
    sums = replace(steps(4, 4), acceptance=RequestAcceptance(2, 8, 8))
    told = steps(4, 4).acceptance
    assert told is not None
    gaps = replace(steps(4, 4), acceptance=replace(told, steps=5))  # three steps without a draft, somewhere
    assert by_output_position([sums, gaps, request()]) == {}
    assert by_context_length([steps(4, prompt=None)]) == {}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200))
def test_the_buckets_hold_every_step_once(accepted: list[int]) -> None:
    trace = steps(*accepted)
    histogram = acceptance_histogram(counts([trace], 4) or AcceptanceCounts(0, 0, 0))
    assert histogram is not None
    assert list(histogram) == [accepted.count(k) for k in range(5)]
    lengths = by_output_position([trace])
    assert min(lengths.values()) <= 1 + sum(accepted) / len(accepted) <= max(lengths.values()) + 1e-12


def test_without_positions_there_is_no_histogram() -> None:
    assert acceptance_histogram(AcceptanceCounts(10, 40, 20)) is None


def test_a_row_shows_them_and_every_rule_for_gaps(tmp_path: Path) -> None:
    """41 tokens: 10 steps of 10 ms with 3 of 4 accepted, so 4 tokens to a chunk."""
    _, cell = summarize(store(tmp_path, [measurement(), measurement(NGRAM, accepted=3)])).cells
    assert cell.acceptance_histogram == (0, 0, 0, 80, 0)
    assert cell.acceptance_by_output_position == {"0-15": 4.0, "16-63": 4.0}
    assert cell.acceptance_by_context_length == {"16-63": 4.0}
    assert (cell.itl_ms_p50, cell.itl_chunk_ms_p50) == (pytest.approx(2.5), pytest.approx(10))
    assert (cell.itl_burst_ms_p50, cell.itl_burst_ms_p99) == (0, pytest.approx(10))


def test_the_suspended_share_is_of_steps_and_of_requests_that_tell() -> None:
    def under(*gammas: int) -> RequestTrace:
        trace = steps(*[min(1, gamma) for gamma in gammas])
        assert trace.acceptance is not None
        return replace(trace, acceptance=replace(trace.acceptance, per_step_gamma=gammas))

    assert suspended_share([under(4, 0, 0, 4), under(0, 2), steps(4, 4)]) == 3 / 6
    assert suspended_share([under(4, 4)]) == 0
    assert suspended_share([steps(4, 4)]) is None
    assert suspended_share([]) is None
