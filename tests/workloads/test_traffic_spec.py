"""Traffic in words means what it says: rates, lengths, burstiness and the day's peak."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.workloads.traffic_spec import DAY, EXAMPLE, Lengths, TrafficSpec, parse_traffic_spec

CHAT = TrafficSpec(50.0, Lengths(800, 300), Lengths(250, 150))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (EXAMPLE, CHAT),
        ("prompt 800+-300 tokens, output 250 +/- 150,3000 requests/min", CHAT),
        ("180e3 req/h, input 800 ± 300 tok, outputs 250±150", CHAT),
        ("2 rps, prompt 100, output 5.5", TrafficSpec(2.0, Lengths(100), Lengths(5.5))),
        (
            "50 r/s, prompt 800±300, output 250±150, CV 2, peak 3x at 9.5h",
            TrafficSpec(50.0, Lengths(800, 300), Lengths(250, 150), cv=2.0, peak=3.0, peak_hour=9.5),
        ),
        ("50 req/s, prompt 800±300, output 250±150, peak 1.5×", TrafficSpec(50, CHAT.prompt, CHAT.output, peak=1.5)),
    ],
)
def test_words_are_figures(text: str, spec: TrafficSpec) -> None:
    assert parse_traffic_spec(text) == spec


def test_tokens_per_month_are_a_rate_and_a_peak_factor_sizes_for_the_busy_hours() -> None:
    lengths = "prompt 800±300, output 250±150"
    assert parse_traffic_spec(lengths, tokens_per_month=10e9).rate == pytest.approx(10e9 / (2.63e6 * 250), rel=1e-3)
    busy = parse_traffic_spec(lengths, tokens_per_month=10e9, peak_factor=3).rate
    assert busy == pytest.approx(3 * 10e9 / (2.63e6 * 250), rel=1e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("50 req, prompt 1, output 1", '"50 req" is no rate, no length'),
        ("50 req/s, prompt 800±300", "says no output length"),
        ("prompt 800, output 250", "says no rate"),
        ("1 req/s, 2 req/s, prompt 1, output 1", '"2 req/s" gives the rate a second time'),
        ("0 req/s, prompt 1, output 1", '"0 req/s": the rate must be above 0'),
        ("1 req/s, prompt 0, output 1", '"prompt 0": a length must be from 1'),
        ("1 req/s, prompt 5±51, output 1", '"prompt 5±51": a length must be'),
        ("1 req/s, prompt 1, output 1, cv 0", '"cv 0": the coefficient of variation'),
        ("1 req/s, prompt 1, output 1, peak 30x at 14h", '"peak 30x at 14h": the peak must be from 1x to 10x'),
        ("1 req/s, prompt 1, output 1, peak 3x at 25h", "at an hour from 0h to 24h"),
    ],
)
def test_a_wrong_part_is_named_with_an_example_that_works(text: str, said: str) -> None:
    with pytest.raises(SpecbenchError) as caught:
        parse_traffic_spec(text)
    assert said in str(caught.value)
    assert EXAMPLE in str(caught.value)


def test_a_rate_is_given_once() -> None:
    with pytest.raises(SpecbenchError, match="says two rates"):
        parse_traffic_spec(EXAMPLE, tokens_per_month=1e9)
    with pytest.raises(SpecbenchError, match="peak factor is for tokens per month"):
        parse_traffic_spec(EXAMPLE, peak_factor=2)


@settings(max_examples=20)
@given(
    st.floats(1, 200), st.floats(0.3, 3), st.floats(5, 5000), st.floats(0, 1.5), st.integers(0, 2**32), st.floats(1, 60)
)
def test_what_is_drawn_is_in_order_whole_and_reproducible(rate, cv, mean, spread, seed, duration) -> None:
    spec = TrafficSpec(rate, Lengths(mean, spread * mean), Lengths(mean), cv=cv)
    traffic, again = (spec.draw(np.random.default_rng(seed), duration) for _ in range(2))
    assert all(np.array_equal(getattr(traffic, n), getattr(again, n)) for n in ("arrival", "prompt_tokens"))
    assert (np.diff(traffic.arrival) >= 0).all()
    assert traffic.arrival[:1].tolist() in ([], [0.0])
    assert (traffic.arrival <= duration).all()
    assert (traffic.prompt_tokens >= 1).all()
    assert (traffic.output_tokens == max(1, np.rint(mean))).all()


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.5])
def test_rate_burstiness_and_lengths_are_those_asked_for(cv: float) -> None:
    spec = TrafficSpec(40.0, Lengths(800, 300), Lengths(250, 150), cv=cv)
    traffic = spec.draw(np.random.default_rng(1), 5000)
    n, gaps = len(traffic), np.diff(traffic.arrival)
    assert n == pytest.approx(200_000, abs=5 * cv * np.sqrt(200_000))  # of a renewal process: sd = cv √n
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03)
    assert traffic.prompt_tokens.mean() == pytest.approx(800, abs=5 * 300 / np.sqrt(n))
    assert traffic.prompt_tokens.std() == pytest.approx(300, rel=0.03)
    assert traffic.output_tokens.mean() == pytest.approx(250, abs=5 * 150 / np.sqrt(n))


@given(st.floats(1, 10), st.floats(0, 24))
def test_a_day_has_the_mean_rate_and_the_peak_asked_for(peak: float, hour: float) -> None:
    spec = TrafficSpec(10.0, Lengths(1), Lengths(1), peak=peak, peak_hour=hour)
    rate = spec.rate_at(np.arange(0, DAY, 10.0))
    assert rate.mean() == pytest.approx(10, rel=1e-6)
    assert spec.rate_at(np.array([hour * 3600]))[0] == pytest.approx(10 * peak, rel=1e-6)
    assert rate.max() <= 10 * peak * (1 + 1e-9)


def test_arrivals_follow_the_hour() -> None:
    spec = TrafficSpec(5.0, Lengths(1), Lengths(1), peak=3.0, peak_hour=14.0)
    traffic = spec.draw(np.random.default_rng(2), DAY)
    hours = [0, 6, 10, 13, 15, 18, 24]
    for begin, end in pairwise(hours):
        times = np.linspace(begin * 3600, end * 3600, 1001)
        expected = spec.rate_at(times).mean() * (end - begin) * 3600
        counted = ((traffic.arrival >= begin * 3600) & (traffic.arrival < end * 3600)).sum()
        assert counted == pytest.approx(expected, abs=5 * np.sqrt(expected) + 5)


def test_more_than_memory_holds_is_not_drawn() -> None:
    with pytest.raises(SpecbenchError, match=r"more than can be drawn .*--duration"):
        parse_traffic_spec("1e6 req/s, prompt 8, output 2").draw(np.random.default_rng(0), 3600.0)
