"""Throughput second by second: nothing lost, nothing counted twice."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import measurement, request

from specbench.analysis.throughput import throughput
from specbench.analysis.time_blocks import window_series
from specbench.replay.window import Window, tokens_in


def test_each_second_holds_the_tokens_made_in_it() -> None:
    """One token in .5 s (the prefill), then one every 10 ms: 50 in the rest of that second, then 100 a second."""
    trace = request(prefill=0.5, step=0.01, length=301)
    series = window_series([trace], Window(0.0, 3.2, 1.0))
    assert series == pytest.approx([51, 100, 100])


@given(
    batch_size=st.integers(1, 4),
    lengths=st.lists(st.integers(1, 200), min_size=1, max_size=5),
    steps=st.lists(st.floats(0.005, 0.05), min_size=1, max_size=3),
)
def test_whole_seconds_add_up_to_the_tokens_of_the_window(
    batch_size: int, lengths: list[int], steps: list[float]
) -> None:
    m = measurement(batch_size=batch_size, requests=8 * batch_size, lengths=lengths, steps=steps)
    window = throughput(m).window
    if window is None:
        return
    series = window_series(m.traces, window)
    whole = Window(window.start, window.start + len(series), window.cycles)
    assert series.sum() == pytest.approx(tokens_in(m.traces, whole), rel=1e-6, abs=1e-6)
    assert np.all(series >= 0)


def test_a_request_without_an_answer_adds_nothing() -> None:
    empty = request(token_ids=(), chunk_times=(), chunk_tokens=(), output_tokens=0, finished=1.0)
    assert window_series([empty], Window(0.0, 2.0, 1.0)).tolist() == [0, 0]
