from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specbench.replay.records import RequestTrace
from specbench.replay.window import Window, steady_window, tokens_in

EVER = Window(float("-inf"), float("inf"), 0)


def closed_loop(
    batch_size: int, lengths: list[int], prefill: float, step: Callable[[int], float]
) -> list[RequestTrace]:
    """Traces of an ideal server: a slot prefills for `prefill` s, then makes a token every `step(slot)` s."""
    free = [(0.0, slot) for slot in range(batch_size)]
    traces = []
    for index, length in enumerate(lengths):
        scheduled, slot = heapq.heappop(free)
        times = tuple(scheduled + prefill + step(slot) * k for k in range(length))
        heapq.heappush(free, (times[-1], slot))
        traces.append(
            RequestTrace(
                index=index,
                prompt_id="p",
                category=None,
                scheduled=scheduled,
                sent=scheduled,
                finished=times[-1],
                chunk_times=times,
                chunk_tokens=(1,) * length,
                prompt_tokens=None,
                output_tokens=length,
                prompt_token_ids=None,
                token_ids=None,
                text="",
                finish_reason="length",
                error=None,
                seed=None,
                acceptance=None,
            )
        )
    return traces


def test_one_slot_is_measured_from_its_first_completion_to_its_last():
    window = steady_window(closed_loop(1, [10] * 4, prefill=1.0, step=lambda _: 0.5), 1)
    assert window == Window(start=5.5, end=22.0, cycles=3.0)


def test_throughput_counts_prefills_in_their_true_proportion():
    # Nine decode steps of .1 s and one prefill of 1.1 s per request: 10 tokens in 2 s and slot.
    traces = closed_loop(4, [10] * 20, prefill=1.1, step=lambda _: 0.1)
    window = steady_window(traces, 4)
    assert window is not None
    assert tokens_in(traces, window) / window.length == pytest.approx(4 * 10 / 2.0)


def test_slots_out_of_step_are_measured_while_all_are_busy():
    traces = closed_loop(2, [4, 4, 4, 4, 4, 4, 4], prefill=1.0, step=lambda slot: [1.0, 1.5][slot])
    window = steady_window(traces, 2)
    assert window is not None
    assert window.start == 5.5  # the slower request of the first cohort
    assert window.end == 16.0  # the sixth completion: nothing is left to refill its slot
    in_flight = [sum(trace.scheduled < t < trace.finished for trace in traces) for t in (5.6, 8.1, 12.1, 15.9)]
    assert in_flight == [2, 2, 2, 2]


def test_cohorts_in_step_give_one_cycle_though_they_end_a_hair_apart():
    window = steady_window(closed_loop(3, [100] * 6, prefill=1.0, step=lambda slot: 0.1 + slot * 1e-6), 3)
    assert window is not None
    assert window.cycles == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("count", [1, 3, 4, 5])
def test_a_run_under_one_refill_cycle_has_no_steady_window(count: int):
    assert steady_window(closed_loop(4, [10] * count, prefill=1.0, step=lambda _: 0.1), 4) is None


def test_a_straggler_of_the_first_cohort_leaves_no_window():
    assert steady_window(closed_loop(2, [100, 5, 5, 5, 5], prefill=1.0, step=lambda _: 1.0), 2) is None


def test_a_chunk_counts_by_the_part_of_its_gap_that_lies_inside():
    (trace,) = closed_loop(1, [3], prefill=1.0, step=lambda _: 1.0)
    assert tokens_in([trace], Window(1.25, 2.5, 0)) == pytest.approx(0.75 + 0.5)


def test_a_first_chunk_was_made_between_sending_and_arrival():
    (trace,) = closed_loop(1, [3], prefill=2.0, step=lambda _: 1.0)
    assert tokens_in([trace], Window(0.0, 0.5, 0)) == pytest.approx(0.25)


runs = st.builds(
    lambda batch, lengths, prefill: closed_loop(batch, lengths, prefill, lambda slot: 0.25 + slot / 16),
    st.integers(1, 4),
    st.lists(st.integers(1, 8), min_size=1, max_size=20),
    st.sampled_from([0.0, 0.5, 2.0]),
)


@given(runs)
def test_all_time_holds_all_tokens(traces: list[RequestTrace]):
    assert tokens_in(traces, EVER) == pytest.approx(sum(trace.output_tokens for trace in traces))


@given(runs, st.lists(st.floats(0, 40), min_size=2, max_size=6, unique=True))
def test_adjoining_windows_share_nothing_and_miss_nothing(traces: list[RequestTrace], cuts: list[float]):
    edges = sorted(cuts)
    parts = [tokens_in(traces, Window(a, b, 0)) for a, b in itertools.pairwise(edges)]
    assert sum(parts) == pytest.approx(tokens_in(traces, Window(edges[0], edges[-1], 0)))


@given(st.integers(1, 4), st.lists(st.integers(1, 8), min_size=12, max_size=20), st.floats(0, 1))
def test_every_slot_is_busy_throughout_a_steady_window(batch_size: int, lengths: list[int], part: float):
    traces = closed_loop(batch_size, lengths, prefill=0.5, step=lambda slot: 0.25 + slot / 16)
    window = steady_window(traces, batch_size)
    assume(window is not None)
    assert window is not None
    at = window.start + part * window.length
    assert sum(trace.scheduled <= at <= trace.finished for trace in traces) >= batch_size
