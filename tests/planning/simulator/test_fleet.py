"""Many replicas: what a router makes of them, what failures do, when some may stand for all."""

from __future__ import annotations

import numpy as np
import pytest
from clockwork import STEP, Geometric, at, clockwork

from specbench.errors import SpecbenchError
from specbench.planning.simulator import Failures, Fleet, Outcome, Renewal, Replayed, simulate
from specbench.planning.simulator.tally import FAILED, FINISHED
from specbench.workloads.traffic_spec import Lengths

TOKENS = 10
OUTPUT = Geometric(TOKENS)


def loaded(router: str, load: float = 0.8, replicas: int = 8, sample: int | None = None) -> Outcome:
    rate = load * replicas / (TOKENS * STEP)
    arrivals = Renewal(rate, Lengths(1), OUTPUT, 40_000 / rate)
    return simulate(Fleet(clockwork(), replicas, router), arrivals, sample=sample)


def test_looking_at_queues_waits_less_than_turns_and_turns_less_than_chance() -> None:
    shortest, turns, chance = (loaded(name).wait.mean().value for name in ("shortest-queue", "round-robin", "random"))
    assert 3 * shortest < turns < 0.8 * chance


def test_a_random_split_of_poisson_arrivals_is_a_queue_of_its_own_at_every_replica() -> None:
    """Pollaczek and Khinchine, for geometric services."""
    expected = 0.8 / TOKENS * (2 - 1 / TOKENS) * TOKENS**2 * STEP / (2 * (1 - 0.8))
    assert loaded("random").wait.mean().value == pytest.approx(expected, rel=0.15)


def test_some_replicas_stand_for_all_of_a_random_split() -> None:
    every, some = loaded("random", replicas=40), loaded("random", replicas=40, sample=10)
    assert some.simulated_replicas == 10
    assert some.requests == pytest.approx(every.requests / 4, rel=0.05)
    assert some.output_tokens_per_s == pytest.approx(every.output_tokens_per_s, rel=0.05)
    assert some.utilisation == pytest.approx(every.utilisation, rel=0.05)
    low, high = every.wait.mean()[1:]
    other = some.wait.mean()
    assert low < other.high
    assert other.low < high


@pytest.mark.parametrize(
    ("router", "cv", "sample"), [("shortest-queue", 1.0, 2), ("random", 2.0, 2), ("random", 1.0, 9)]
)
def test_elsewhere_none_stands_for_another(router: str, cv: float, sample: int) -> None:
    with pytest.raises(SpecbenchError, match="stand for all"):
        simulate(Fleet(clockwork(), 8, router), Renewal(1, Lengths(1), OUTPUT, 10, cv), sample=sample)


def test_affinity_finds_prefixes_that_turns_scatter() -> None:
    """1,200 conversations of six turns, each of which adds 200 tokens of a prompt and 30 of an answer."""
    random, turns = np.random.default_rng(0), np.arange(6)
    times = random.uniform(0, 600, (1200, 1)) + np.cumsum(random.exponential(5, (1200, 6)), axis=1)
    prompts, sessions = np.tile(200 + 230 * turns, 1200), np.repeat(np.arange(1200), 6)
    order = np.argsort(times, axis=None)
    arrivals = at(times.ravel()[order].tolist(), prompts[order].tolist(), 30, sessions[order].tolist())
    replica = clockwork(max_batch_size=64, prefix_caching=True, kv_tokens=10**6)
    stays, scattered = (simulate(Fleet(replica, 8, r), arrivals) for r in ("prefix-affinity", "round-robin"))
    assert stays.cached_prompt_share > 0.6
    assert scattered.cached_prompt_share < 0.3
    cold = simulate(Fleet(clockwork(max_batch_size=64), 8, "prefix-affinity"), arrivals)
    assert cold.cached_prompt_share == 0


def test_a_prefix_that_others_have_displaced_is_not_found() -> None:
    """A session comes back after requests that fill the cache of 200 tokens: once after few, once after many."""
    replica = clockwork(prefix_caching=True, kv_tokens=200, block_tokens=10)
    for between, expected in ((1, 50), (8, 0)):
        prompts = [50, *[50] * between, 60]
        traffic = at([float(i) for i in range(len(prompts))], prompts, 1, [7, *range(100, 100 + between), 7])
        outcome = simulate(Fleet(replica), Replayed(traffic, 1000.0), warm_up=0.0)
        assert outcome.cached_prompt_share * sum(prompts) == pytest.approx(expected)


def test_failures_cost_time_and_lose_no_request() -> None:
    arrivals = Renewal(4, Lengths(20), Geometric(40), 4000)
    sound = simulate(Fleet(clockwork(max_batch_size=4), 4), arrivals)
    failing = simulate(Fleet(clockwork(max_batch_size=4), 4, failures=Failures(200, 50)), arrivals)
    assert failing.counted.totals[FAILED] > 20
    assert failing.availability == pytest.approx(200 / 250, abs=0.06)
    assert failing.counted.histograms[2].sum() == sound.counted.histograms[2].sum(), "every request ends"
    assert failing.e2e.mean().value > sound.e2e.mean().value


def test_where_all_are_gone_requests_wait_for_a_repair() -> None:
    outcome = simulate(
        Fleet(clockwork(max_batch_size=4), 1, failures=Failures(5, 5)),
        Replayed(at(np.arange(0, 60, 0.5).tolist(), 10, 20), 1e6),
        warm_up=0.0,
    )
    assert outcome.counted.totals[FINISHED] == 120
    assert outcome.e2e.quantile(0.9).value > 20 * STEP


def test_what_is_no_fleet_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="round-robin, random"):
        Fleet(clockwork(), 2, "fastest")
    with pytest.raises(SpecbenchError, match="1 replica or more"):
        Fleet(clockwork(), 0)
    with pytest.raises(SpecbenchError, match="above 0"):
        Failures(0, 1)
    with pytest.raises(SpecbenchError, match="warm-up"):
        simulate(Fleet(clockwork()), Renewal(1, Lengths(1), OUTPUT, 10), warm_up=1.0)
