"""Arrival processes: how many come, how evenly, and the same ones for every arm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specbench.replay.arrivals import Arrival, arrival_offsets, parse_arrival, trace_rate

WRITTEN = st.sampled_from(["poisson", "constant", "gamma:0.5", "gamma:1", "gamma:3"])


@given(WRITTEN, st.integers(2, 500), st.floats(0.01, 1000), st.integers(-(2**63), 2**63 - 1))
def test_requests_come_in_order_at_exactly_the_rate(written: str, count: int, rate: float, seed: int) -> None:
    offsets = arrival_offsets(parse_arrival(written), count, rate, seed)
    assert offsets.shape == (count,)
    assert offsets[0] == 0
    assert np.all(np.diff(offsets) >= 0)
    assert (count - 1) / offsets[-1] == pytest.approx(rate)


@given(WRITTEN, st.integers(0, 2**32))
def test_a_seed_gives_the_same_arrivals_at_every_rate(written: str, seed: int) -> None:
    slow, fast = (arrival_offsets(parse_arrival(written), 50, rate, seed) for rate in (1.0, 8.0))
    np.testing.assert_allclose(slow, fast * 8)
    np.testing.assert_array_equal(slow, arrival_offsets(parse_arrival(written), 50, 1.0, seed))


@pytest.mark.parametrize(("written", "cv"), [("poisson", 1.0), ("gamma:0.3", 0.3), ("gamma:2", 2.0), ("constant", 0.0)])
def test_gaps_vary_as_asked(written: str, cv: float) -> None:
    gaps = np.diff(arrival_offsets(parse_arrival(written), 200_001, 5.0, 7))
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.02, abs=1e-9)


def test_poisson_arrivals_lie_in_their_time_like_uniform_draws() -> None:
    """Given how many there are: the claim on which scaling to the exact rate rests."""
    offsets = arrival_offsets(Arrival("poisson"), 2_002, 1.0, 3)
    assert stats.kstest(offsets[1:-1] / offsets[-1], "uniform").pvalue > 1e-3


def test_a_trace_keeps_its_own_times_or_its_shape_at_another_rate(tmp_path: Path) -> None:
    path = tmp_path / "trace.txt"
    path.write_text("10\n11\n14\n")
    arrival = parse_arrival(f"trace:{path}")
    np.testing.assert_allclose(arrival_offsets(arrival, 3, None, 0), [0, 1, 4])
    np.testing.assert_allclose(arrival_offsets(arrival, 3, 1.0, 0), [0, 0.5, 2])
    # Used again, with a gap of mean length between the end and the beginning.
    np.testing.assert_allclose(arrival_offsets(arrival, 6, None, 0), [0, 1, 4, 6, 7, 10])
    assert trace_rate(path) == pytest.approx(0.5)


@pytest.mark.parametrize("count", [0, 1])
def test_one_request_comes_at_once(count: int) -> None:
    assert arrival_offsets(Arrival("poisson"), count, 2.0, 0).tolist() == [0.0] * count


@pytest.mark.parametrize(
    "written", ["", "poison", "gamma", "gamma:", "gamma:0", "gamma:-1", "gamma:inf", "gamma:x", "trace:", "constant:2"]
)
def test_what_is_no_process_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match=r"gamma|poisson|float"):
        parse_arrival(written)


def test_processes_are_read_as_written() -> None:
    assert parse_arrival("poisson") == Arrival("poisson")
    assert parse_arrival("gamma:2") == Arrival("gamma", cv=2.0)
    assert parse_arrival("trace:a/b:c.csv") == Arrival("trace", trace=Path("a/b:c.csv"))
