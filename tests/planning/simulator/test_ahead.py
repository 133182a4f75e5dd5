"""Steps that are simulated ahead of their time leave no trace: all that is counted is as with an event for each."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from clockwork import STEP, USUAL, at, clockwork
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.machine import Machine
from specbench.planning.performance import Drafting, Efficiency
from specbench.planning.shape import STAND_IN
from specbench.planning.simulator import (
    ROUTERS,
    Failures,
    Fleet,
    Outcome,
    Replayed,
    Replica,
    ahead,
    rules,
    simulate,
    tally,
)
from specbench.planning.simulator.engine import Engine
from specbench.planning.simulator.loop import Arriving, Outages, advance
from specbench.planning.simulator.policy import read_policy
from specbench.planning.simulator.state import NONE, empty, with_room
from specbench.planning.simulator.step_time import Cost
from specbench.planning.simulator.survival import survival

H200 = Machine.of(find_gpu("H200", catalogue()))
ENGINE = Efficiency(1.5e-3, 0.7, 0.5, 1.4, 2e-5, 1.1)
LARGEST = 3


def followed(fleet: Fleet, arrivals: Replayed, contexts: int, seed: int = 0) -> Outcome:
    """contexts: tokens up to which a request that is alone is followed, 0 for an event per step"""
    with patch.object(ahead, "CONTEXTS", contexts):
        return simulate(fleet, arrivals, seed)


@settings(max_examples=200)
@given(
    requests=st.lists(
        st.tuples(st.floats(0, 5), st.integers(1, 60), st.integers(1, 90) | st.integers(1, 700), st.integers(0, 5)),
        min_size=1,
        max_size=40,
    ),
    constant=st.booleans(),
    policy=st.sampled_from(["none", f"fixed:{LARGEST}", "schedule:1=0+2=3", "schedule:1=2+3=0"]),
    router=st.sampled_from(["round-robin", "random", "shortest-queue", "prefix-affinity"]),
    replicas=st.integers(1, 4),
    batch=st.integers(1, 4),
    budget=st.integers(20, 100),
    cache=st.integers(100, 1000),
    block=st.integers(1, 16),
    share=st.sampled_from([1.0, 0.7]),
    prefixes=st.booleans(),
    failures=st.none() | st.builds(Failures, st.floats(0.5, 5), st.floats(0.1, 2)),
    duration=st.floats(1, 10),
    contexts=st.integers(1, 800),
    seed=st.integers(0, 100),
)
def test_a_lone_request_is_followed_and_nothing_else_changes(
    requests: list[tuple[float, int, int, int]],
    constant: bool,
    policy: str,
    router: str,
    replicas: int,
    batch: int,
    budget: int,
    cache: int,
    block: int,
    share: float,
    prefixes: bool,
    failures: Failures | None,
    duration: float,
    contexts: int,
    seed: int,
) -> None:
    """Exactly, but for the order in which seconds are summed up."""
    settings = {
        "drafting": Drafting(0.06, 3e-4),
        "acceptance": replace(USUAL, spread=0.5),
        "policy": policy,
        "max_batch_size": batch,
        "token_budget": budget,
        "kv_tokens": cache,
        "block_tokens": block,
        "drafted_share": share,
        "prefix_caching": prefixes,
    }
    replica = clockwork(**settings) if constant else Replica(STAND_IN, H200, ENGINE, **settings)
    fleet = Fleet(replica, replicas, router, failures)
    times, prompts, outputs, sessions = (list(column) for column in zip(*sorted(requests), strict=True))
    arrivals = Replayed(at(times, prompts, outputs, sessions), duration)
    stepped, ours = (followed(fleet, arrivals, n, seed) for n in (0, contexts))
    assert ours.refused == stepped.refused
    for name in ("histograms", "sums", "course_ttft", "course_tpot"):
        assert np.array_equal(getattr(ours.counted, name), getattr(stepped.counted, name)), name
    assert ours.counted.course == pytest.approx(stepped.counted.course, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("policy", "followed"), [("fixed:3", True), ("threshold", False)])
def test_the_loop_comes_back_at_the_end_of_a_lone_request_unless_the_rule_learns(policy: str, followed: bool) -> None:
    """Its prompt takes one step, its 100 tokens 24 or more, and a request elsewhere comes in the second."""
    fleet = Fleet(clockwork(policy=policy, kv_tokens=1000), 2, "round-robin")
    read = read_policy(policy)
    kept = survival(USUAL, read.largest)
    rule = rules.rule_of(read, kept, 1)
    engine = Engine(Cost.of(fleet.replica), rule, kept, 1, 10**6, fleet.replica.blocks, fleet.replica.block_tokens)
    now = with_room(empty(fleet, rules.first_row(rule, 1), ahead.seconds_alone(engine)), 2)
    tokens, none = np.full(2, 100, np.int32), np.zeros(2, np.int32)
    arriving = Arriving(np.array([0.0, 1.5 * STEP]), tokens, tokens, np.full(2, NONE), none, np.arange(2))
    counted = tally.empty(0.0, 10.0, 1.0, np.full(len(tally.METRICS), np.inf))
    turns = ROUTERS.index(fleet.router)
    advance(engine, now, counted, turns, Outages(np.inf, 0.0), arriving, False, np.random.default_rng(0))
    assert now.replicas.ends[0] == pytest.approx(2 * STEP)
    assert (now.wakes[0] >= 25 * STEP) == followed
    assert counted.totals[tally.STEPS] == 3, "what is ahead is not counted yet"
