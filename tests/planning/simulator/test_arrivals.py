"""Traffic that is drawn has the rate, the bursts and the lengths that were asked for, and no gap is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.planning.simulator import Arrivals, Diurnal, Renewal, Replayed, arrivals_of
from specbench.workloads.traffic import Traffic
from specbench.workloads.traffic_spec import Lengths, parse_traffic_spec

PROMPT, OUTPUT = Lengths(800, 300), Lengths(250, 150)


def drawn(arrivals: Arrivals, seed: int = 0) -> Traffic:
    blocks = list(arrivals.blocks(np.random.default_rng(seed)))
    columns = [
        np.concatenate([getattr(b, name) for b in blocks]) for name in ("arrival", "prompt_tokens", "output_tokens")
    ]
    return Traffic(*columns)


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.5])
def test_gaps_have_the_mean_and_the_spread_that_were_asked_for(cv: float) -> None:
    traffic = drawn(Renewal(50, PROMPT, OUTPUT, 2000, cv))
    gaps = np.diff(traffic.arrival)
    assert len(gaps) == pytest.approx(100_000, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)
    assert traffic.arrival[-1] < 2000
    assert traffic.output_tokens.mean() == pytest.approx(250, rel=0.02)


def test_long_gaps_are_not_cut() -> None:
    """e⁻³ of a Poisson process' gaps are longer than three mean ones."""
    gaps = np.diff(drawn(Renewal(50, PROMPT, OUTPUT, 2000)).arrival) * 50
    assert np.mean(gaps > 3) == pytest.approx(np.exp(-3), rel=0.05)
    assert gaps.max() > 9


def test_the_same_seed_gives_the_same_requests_at_every_rate() -> None:
    slow, fast = (drawn(Renewal(rate, PROMPT, OUTPUT, 100_000 / rate)) for rate in (10, 20))
    assert slow.arrival == pytest.approx(2 * fast.arrival)
    assert np.array_equal(slow.prompt_tokens, fast.prompt_tokens)


def test_a_days_course_is_followed() -> None:
    traffic = drawn(Diurnal([1, 3, 5, 3], PROMPT, OUTPUT, 86_400))
    by_hour, _ = np.histogram(traffic.arrival, bins=24, range=(0, 86_400))
    peak, trough = by_hour[12], by_hour[0]
    assert peak == pytest.approx((5 + 4.667) / 2 * 3600, rel=0.05)
    assert trough == pytest.approx((1 + 1.333) / 2 * 3600, rel=0.07)
    assert len(traffic) == pytest.approx(3 * 86_400, rel=0.01)


@given(st.integers(1, 40_000))
def test_a_record_is_played_as_it_is(requests: int) -> None:
    ones = np.ones(requests, np.int32)
    traffic = Traffic(np.arange(requests, dtype=float), ones, ones)
    played = drawn(Replayed(traffic))
    assert np.array_equal(played.arrival, traffic.arrival)
    assert Replayed(traffic).duration >= requests - 1


def test_words_become_arrivals() -> None:
    steady = arrivals_of(parse_traffic_spec("50 req/s, prompt 800±300, output 250±150, cv 2"), 60)
    assert isinstance(steady, Renewal)
    assert (steady.rate, steady.cv, steady.duration) == (50, 2, 60)
    day = arrivals_of(parse_traffic_spec("2 req/s, prompt 800, output 250, peak 3x at 14h"), 86_400)
    assert isinstance(day, Diurnal)
    assert day.rate_at(np.array([14 * 3600.0]))[0] == pytest.approx(6, rel=1e-3)
    assert len(drawn(day)) == pytest.approx(2 * 86_400, rel=0.02)


@pytest.mark.parametrize("rate", [0, -1, float("inf")])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(SpecbenchError, match="rate"):
        Renewal(rate, PROMPT, OUTPUT, 10)
