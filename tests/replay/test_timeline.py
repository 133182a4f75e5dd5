from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.replay.records import RequestTrace
from specbench.replay.timeline import ItlRule, arrivals, chunk_sizes, e2e, itl, tpot, ttft


def trace(times: list[float], tokens: list[int], scheduled: float = 0.0, finished: float | None = None) -> RequestTrace:
    return RequestTrace(
        index=0,
        prompt_id="p",
        category=None,
        scheduled=scheduled,
        sent=scheduled,
        finished=finished if finished is not None else (times[-1] if times else scheduled),
        chunk_times=tuple(times),
        chunk_tokens=tuple(tokens),
        prompt_tokens=None,
        output_tokens=sum(tokens),
        prompt_token_ids=None,
        token_ids=None,
        text="",
        finish_reason="stop",
        error=None,
        seed=None,
        acceptance=None,
    )


@st.composite
def traces(draw: st.DrawFn) -> RequestTrace:
    """Chunks of 1–9 tokens; a gap of 0 stands for chunks that one read brought in."""
    sizes = draw(st.lists(st.integers(1, 9), min_size=1, max_size=20))
    gaps = draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 3.0]), min_size=len(sizes), max_size=len(sizes)))
    return trace([0.5 + float(t) for t in np.cumsum(gaps)], sizes)


SPECULATED = trace([1.0, 1.4, 2.0], [1, 4, 3], scheduled=0.25, finished=2.5)


def test_latencies_of_a_speculated_answer():
    assert ttft(SPECULATED) == 0.75
    assert e2e(SPECULATED) == 2.25
    assert tpot(SPECULATED) == pytest.approx(1.0 / 7)


def test_itl_rules_differ_as_named():
    assert itl(SPECULATED, "spread") == pytest.approx([0.1] * 4 + [0.2] * 3)
    assert itl(SPECULATED, "chunk") == pytest.approx([0.4, 0.6])
    assert itl(SPECULATED, "burst") == pytest.approx([0.4, 0, 0, 0, 0.6, 0, 0])


def test_chunks_of_one_read_are_one_arrival_but_stay_chunks():
    coalesced = trace([1.0, 2.0, 2.0], [1, 3, 1])
    assert [list(part) for part in arrivals(coalesced)] == [[1.0, 2.0], [1, 4]]
    assert itl(coalesced, "spread") == pytest.approx([0.25] * 4)
    assert itl(coalesced, "chunk") == pytest.approx([1.0, 0.0])
    assert chunk_sizes([coalesced]) == {1: 2, 3: 1}


def test_an_answer_that_came_at_once_has_no_tpot():
    assert tpot(trace([1.0], [5])) is None
    assert itl(trace([1.0], [5])).size == 0


def test_an_answer_that_never_came_has_no_latency():
    nothing = trace([], [])
    assert (ttft(nothing), tpot(nothing), itl(nothing).size, itl(nothing, "burst").size) == (None, None, 0, 0)


@given(traces(), st.sampled_from(["spread", "chunk", "burst"]))
def test_gaps_add_up_to_last_minus_first_under_every_rule(request_: RequestTrace, rule: ItlRule):
    assert itl(request_, rule).sum() == pytest.approx(request_.chunk_times[-1] - request_.chunk_times[0])


@given(traces())
def test_spread_gaps_are_one_per_token_after_the_first_arrival_and_their_mean_is_the_tpot(request_: RequestTrace):
    _, tokens = arrivals(request_)
    gaps = itl(request_)
    assert len(gaps) == len(itl(request_, "burst")) == request_.output_tokens - tokens[0]
    if tpot(request_) is not None:
        assert gaps.mean() == pytest.approx(tpot(request_))


@given(traces())
def test_arrivals_keep_every_token(request_: RequestTrace):
    times, tokens = arrivals(request_)
    assert tokens.sum() == request_.output_tokens
    assert (np.diff(times) > 0).all()


@given(st.lists(traces(), max_size=4))
def test_the_histogram_holds_every_chunk(many: list[RequestTrace]):
    histogram = chunk_sizes(many)
    assert sum(histogram.values()) == sum(len(one.chunk_times) for one in many)
    assert sum(size * count for size, count in histogram.items()) == sum(one.output_tokens for one in many)
