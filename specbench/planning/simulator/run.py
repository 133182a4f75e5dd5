"""One simulation from end to end: traffic in blocks through the event loop, figures out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from specbench.errors import SpecbenchError
from specbench.planning.simulator import ahead, rules, state, tally
from specbench.planning.simulator.arrivals import Arrivals, Replayed
from specbench.planning.simulator.engine import Engine
from specbench.planning.simulator.fleet import ROUTERS, Fleet
from specbench.planning.simulator.loop import Arriving, Outages, advance
from specbench.planning.simulator.outcome import Outcome
from specbench.planning.simulator.policy import read_policy
from specbench.planning.simulator.state import FREE, IN_FLIGHT, NEXT_OUTAGE, REFUSED
from specbench.planning.simulator.step_time import Cost
from specbench.planning.simulator.survival import survival
from specbench.workloads.traffic import Traffic

WARM_UP = 0.1

MOST_IN_FLIGHT = 10_000_000
"""Requests that may be in the fleet at once, some 2 GB of them: beyond it a simulation tells nothing but that."""

_MINUTE, _MOST_INTERVALS, _LEAST_INTERVALS = 60.0, 1440, 60


def simulate(
    fleet: Fleet,
    traffic: Traffic | Arrivals,
    seed: int = 0,
    warm_up: float = WARM_UP,
    slo: Mapping[str, float] | None = None,
    sample: int | None = None,
) -> Outcome:
    """Every request of the traffic, served to its end. The same seed gives the same outcome.

    warm_up: share of the time that is simulated and not counted, to a minute
    slo: seconds that a well served request keeps, by `ttft`, `tpot` and `e2e`: for goodput
    sample: replicas to simulate for all, each with its share of the traffic. Exact where a random router splits a
        Poisson process, whose parts are independent Poisson processes; refused elsewhere.
    Raises SpecbenchError for what cannot be simulated, such as a queue that grows without end.
    """
    arrivals = Replayed(traffic) if isinstance(traffic, Traffic) else traffic
    if not 0 <= warm_up < 1:
        raise SpecbenchError(f"the warm-up is a share of the time, from 0 to below 1; got {warm_up:g}.")
    asked = fleet
    if sample is not None:
        fleet, arrivals = _sampled(fleet, arrivals, sample)
    for_traffic, for_kinds, for_engine, for_keys = (
        np.random.default_rng(s) for s in np.random.SeedSequence(seed % 2**64).spawn(4)
    )
    engine = _engine(fleet)
    now = state.empty(fleet, rules.first_row(engine.rule, engine.batch_size), ahead.seconds_alone(engine))
    outages = _outages(fleet, now, for_engine)
    duration = float(arrivals.duration)
    interval = _interval(duration)
    start = min(round(warm_up * duration / interval), math.ceil(duration / interval) - 1) * interval
    counted = tally.empty(start, duration, interval, _limits(slo or {}))
    requests, router = 0, ROUTERS.index(fleet.router)
    for block in _blocks(arrivals, len(engine.survival), for_traffic, for_kinds, for_keys):
        requests += len(block.time)
        if now.counts[IN_FLIGHT] > MOST_IN_FLIGHT:
            raise SpecbenchError(
                f"the fleet cannot keep up: {MOST_IN_FLIGHT:,} requests wait after {block.time[-1]:.0f} s. "
                "Simulate more replicas, or less traffic."
            )
        now = state.with_room(now, len(block.time))
        advance(engine, now, counted, router, outages, block, False, for_engine)
    advance(engine, now, counted, router, outages, _NOTHING, True, for_engine)
    assert now.counts[FREE] == len(now.pool)
    assert (now.replicas.free == fleet.replica.blocks).all()
    return Outcome(asked, counted, requests, int(now.counts[REFUSED]), sample)


def _sampled(fleet: Fleet, arrivals: Arrivals, sample: int) -> tuple[Fleet, Arrivals]:
    if not 1 <= sample <= fleet.replicas:
        raise SpecbenchError(f"of {fleet.replicas} replicas {sample} cannot stand for all: take 1 or more of them.")
    part = arrivals.thinned(sample / fleet.replicas)
    if fleet.router != "random" or part is None:
        raise SpecbenchError(
            "some replicas stand for all only where a random router splits a Poisson process: leave the sample out, or "
            "use the random router and Poisson arrivals."
        )
    return replace(fleet, replicas=sample), part


def _engine(fleet: Fleet) -> Engine:
    replica = fleet.replica
    policy = read_policy(replica.policy)
    kept = survival(replica.acceptance, policy.largest) if policy.largest and replica.acceptance else np.zeros((1, 0))
    return Engine(
        Cost.of(replica),
        rules.rule_of(policy, kept, replica.max_batch_size),
        kept,
        replica.max_batch_size,
        replica.token_budget,
        replica.blocks,
        replica.block_tokens,
    )


def _outages(fleet: Fleet, now: state.State, rng: np.random.Generator) -> Outages:
    if fleet.failures is None:
        return Outages(np.inf, 0.0)
    now.replicas.outage = rng.exponential(fleet.failures.time_between, fleet.replicas)
    now.counts[NEXT_OUTAGE] = np.argmin(now.replicas.outage)
    return Outages(fleet.failures.time_between, fleet.failures.repair)


def _interval(duration: float) -> float:
    """A minute where that gives a course of some length and no endless one."""
    return max(min(_MINUTE, duration / _LEAST_INTERVALS), duration / _MOST_INTERVALS)


def _limits(slo: Mapping[str, float]) -> NDArray[np.float64]:
    return np.array([slo.get(name, np.inf) for name in tally.METRICS])


def _blocks(
    arrivals: Arrivals,
    kinds: int,
    for_traffic: np.random.Generator,
    for_kinds: np.random.Generator,
    for_keys: np.random.Generator,
) -> Iterator[Arriving]:
    for block in arrivals.blocks(for_traffic):
        if len(block):
            yield Arriving(
                block.arrival,
                block.prompt_tokens.astype(np.int32),
                block.output_tokens.astype(np.int32),
                _spread(block.session) if block.session is not None else np.full(len(block), state.NONE),
                for_kinds.integers(0, kinds, len(block), np.int32),
                for_keys.integers(0, 2**63, len(block)),
            )


def _spread(session: NDArray[np.int64]) -> NDArray[np.int64]:
    """Names of sessions that are spread over all numbers from 0 on, alike ones alike (splitmix64)."""
    mixed = session.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


_NOTHING = Arriving(
    np.zeros(0),
    np.zeros(0, np.int32),
    np.zeros(0, np.int32),
    np.zeros(0, np.int64),
    np.zeros(0, np.int32),
    np.zeros(0, np.int64),
)
