"""Queues whose waiting times are known by formula, through the same engine: an answer is a service, a slot a server."""

from __future__ import annotations

import math
from typing import Any

import pytest
from clockwork import STEP, Geometric, OneOf, clockwork

from specbench.planning.simulator import Fleet, Outcome, Renewal, simulate
from specbench.planning.simulator.tally import SEQUENCES
from specbench.workloads.traffic_spec import Lengths

TOKENS = 20
ONE = Lengths(1)


def queue(output: Any, load: float, servers: int = 1, mean: float = TOKENS, requests: int = 80_000) -> Outcome:
    rate = load * servers / (mean * STEP)
    fleet = Fleet(clockwork(max_batch_size=servers))
    return simulate(fleet, Renewal(rate, ONE, output, requests / rate), seed=3)


def waiting(load: float, mean: float, mean_square: float) -> float:
    """Pollaczek and Khinchine: W = λ E[S²] / (2 (1 − ρ)), of services of so many tokens."""
    return load / mean * mean_square * STEP / (2 * (1 - load))


def holds(outcome: Outcome, expected: float) -> bool:
    """Within the interval by batch means, at 99 %: Student's t of 19 is 2.86, for the 95 % of `Range` 2.09."""
    figure = outcome.wait.mean()
    half = figure.high - figure.value
    assert half < 0.2 * expected
    return abs(figure.value - expected) <= half * 2.86 / 2.09


@pytest.mark.parametrize("load", [0.5, 0.8])
def test_one_server_with_exponential_services_is_an_m_m_1_queue(load: float) -> None:
    outcome = queue(Geometric(TOKENS), load)
    assert holds(outcome, waiting(load, TOKENS, (2 - 1 / TOKENS) * TOKENS**2))
    assert outcome.utilisation == pytest.approx(load, rel=0.03)
    # The exponential itself: ρ / (μ − λ).
    assert outcome.wait.mean().value == pytest.approx(load * TOKENS * STEP / (1 - load), rel=0.12)


def test_one_server_with_even_services_is_an_m_d_1_queue() -> None:
    assert holds(queue(Lengths(TOKENS), 0.8), waiting(0.8, TOKENS, TOKENS**2))


def test_one_server_with_uneven_services_follows_pollaczek_and_khinchine() -> None:
    sizes = (5, 5, 5, 65)
    mean, square = sum(sizes) / 4, sum(size**2 for size in sizes) / 4
    assert holds(queue(OneOf(sizes), 0.7, mean=mean), waiting(0.7, mean, square))


def test_several_slots_are_an_m_m_c_queue() -> None:
    """Erlang's C, but for what steps make of it: half of one either way."""
    servers, load = 4, 0.8
    offered = servers * load
    full = offered**servers / math.factorial(servers) / (1 - load)
    waits = full / (full + sum(offered**k / math.factorial(k) for k in range(servers)))
    expected = waits * TOKENS * STEP / (servers - offered)
    assert holds(queue(Geometric(TOKENS), load, servers), expected)


def test_littles_law_holds() -> None:
    """Sequences in the batch = requests per second × seconds of a request in it."""
    outcome = queue(Geometric(TOKENS), 0.7, servers=8)
    in_batch = float(outcome.counted.totals[SEQUENCES]) / outcome.seconds
    served = outcome.e2e.mean().value - outcome.wait.mean().value
    assert in_batch == pytest.approx(outcome.arrivals_per_s * served, rel=0.01)


def test_more_bursts_at_the_same_rate_wait_longer() -> None:
    fleet, rate = Fleet(clockwork()), 0.7 / (TOKENS * STEP)
    even, poisson, bursts = (
        simulate(fleet, Renewal(rate, ONE, Lengths(TOKENS), 20_000 / rate, cv)).wait.mean().value for cv in (0, 1, 3)
    )
    assert even == 0
    # Kingman's approximation, exact at cv 1: the wait grows with the square of the gaps' cv.
    assert bursts > 5 * poisson > 0
