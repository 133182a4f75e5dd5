"""Figures of traffic are those of traffic that was made by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.workloads.traffic import Traffic
from specbench.workloads.traffic_stats import MOST_BINS, traffic_stats


def made(*arrival: float, session: list[int] | None = None) -> Traffic:
    n = len(arrival)
    return Traffic(
        np.array(arrival, dtype=np.float64),
        np.full(n, 100, dtype=np.int32),
        np.arange(1, n + 1, dtype=np.int32),
        None if session is None else np.array(session),
    )


def test_rates_lengths_and_sessions() -> None:
    stats = traffic_stats(made(0, 1, 2, 3, 8, session=[4, 4, 9, 4, 7]))
    assert (stats.requests, stats.span_s, stats.requests_per_s, stats.sessions) == (5, 8, 0.5, 3)
    assert stats.busiest_requests_per_s == 1
    assert stats.gaps_cv == pytest.approx(np.sqrt(3) / 2)
    assert (stats.output_tokens.mean, stats.output_tokens.p50, stats.output_tokens.max) == (3, 3, 5)
    assert (stats.prompt_tokens_per_s, stats.output_tokens_per_s) == (50, 1.5)
    assert stats.rate[0] == (0, 1, 1)


@given(st.lists(st.floats(0, 1e7), min_size=2, max_size=50).map(sorted).filter(lambda t: t[-1] > t[0]))
def test_few_bins_without_gaps_hold_every_request_once(times: list[float]) -> None:
    traffic = made(*(t - times[0] for t in times))
    bins = traffic_stats(traffic).rate
    assert 1 <= len(bins) <= MOST_BINS
    assert bins[0][0] == 0
    assert bins[-1][1] == traffic.arrival[-1]
    assert all(left[1] == right[0] for left, right in pairwise(bins))
    assert sum((end - begin) * rate for begin, end, rate in bins) == pytest.approx(len(traffic))


@pytest.mark.parametrize("end", [100.001, 102.4, 102.6, 104.999])
def test_the_moment_before_the_end_is_not_the_busiest(end: float) -> None:
    stats = traffic_stats(made(*range(int(end) + 1), end))
    assert 1 <= stats.busiest_requests_per_s < 2


@pytest.mark.parametrize("arrival", [(), (0.0,), (0.0, 0.0)])
def test_what_has_no_rate_is_refused(arrival: tuple[float, ...]) -> None:
    with pytest.raises(SpecbenchError, match="fewer than two requests at different times"):
        traffic_stats(made(*arrival))
