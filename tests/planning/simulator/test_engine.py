"""What a replica does with its requests: batches, prompts in pieces, a full cache, drafts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from clockwork import STEP, USUAL, Geometric, at, clockwork
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.errors import SpecbenchError
from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.acceptance import expected_length
from specbench.planning.machine import Machine
from specbench.planning.performance import Drafting, Efficiency, draft_seconds, forward_seconds, tokens_per_second
from specbench.planning.shape import STAND_IN
from specbench.planning.simulator import Acceptance, Fleet, Outcome, Renewal, Replayed, Replica, simulate
from specbench.planning.simulator.tally import ACCEPTED, DECODED, EMITTED, FINISHED, PREEMPTED, PREFILLED, REUSED
from specbench.workloads.traffic import Traffic
from specbench.workloads.traffic_spec import Lengths

LONG = 1e7
"""Seconds that are counted where all that happens is to be."""
H200 = Machine.of(find_gpu("H200", catalogue()))
ENGINE = Efficiency(1.5e-3, 0.7, 0.5, 1.4, 2e-5, 1.1)
DRAFTER = Drafting(0.06, 3e-4)


def played(replica: Replica, traffic: Traffic, replicas: int = 1, router: str = "round-robin") -> Outcome:
    return simulate(Fleet(replica, replicas, router), Replayed(traffic, LONG), warm_up=0.0)


def total(outcome: Outcome, column: int) -> float:
    return float(outcome.counted.totals[column])


def test_a_request_alone_takes_its_prefill_and_a_step_for_every_further_token() -> None:
    outcome = played(clockwork(), at([0.0], 10, 5))
    assert outcome.ttft.mean().value == pytest.approx(STEP)
    assert outcome.tpot.mean().value == pytest.approx(STEP)
    assert outcome.e2e.mean().value == pytest.approx(5 * STEP)
    assert outcome.wait.mean().value == 0


def test_requests_of_one_batch_share_its_steps_and_the_next_waits_for_a_place() -> None:
    """The first begins at once, the second joins it a step later, and the third when the first has left."""
    outcome = played(clockwork(max_batch_size=2), at([0.0, 0.0, 0.0], 10, [5, 5, 5]))
    assert outcome.e2e.quantile(0.5).value == pytest.approx(6 * STEP, rel=0.01)
    assert outcome.e2e.quantile(1).value == pytest.approx(10 * STEP, rel=0.01)
    assert outcome.wait.quantile(1).value == pytest.approx(5 * STEP, rel=0.01)


def test_a_long_prompt_is_read_in_pieces_beside_those_that_decode() -> None:
    """40 tokens a pass, of which one decodes: 100 of a prompt take three passes, and the other goes on meanwhile."""
    outcome = played(clockwork(max_batch_size=2, token_budget=40), at([0.0, 2.5 * STEP], [10, 100], [30, 2]))
    second = outcome.counted.sums[0].sum() - STEP  # its time to the first token
    assert second == pytest.approx(0.5 * STEP + 3 * STEP)
    assert outcome.e2e.quantile(1).value == pytest.approx(30 * STEP, rel=0.01)


def test_a_full_cache_sends_the_last_one_back_and_it_is_computed_again() -> None:
    """Two requests grow to 40 tokens each in a cache of 60."""
    replica = clockwork(max_batch_size=2, kv_tokens=60, block_tokens=1)
    outcome = played(replica, at([0.0, 0.0], 20, 20))
    assert total(outcome, PREEMPTED) == 1
    assert total(outcome, PREFILLED) > 2 * 20, "its prompt and what it had put out"
    assert total(outcome, EMITTED) == 2 * 20
    first, last = (outcome.e2e.quantile(q).value for q in (0.5, 1))
    assert first == pytest.approx(20 * STEP, rel=0.01), "the one admitted first keeps its place"
    assert last > first


def test_a_request_that_no_cache_could_hold_is_refused_and_counted() -> None:
    outcome = played(clockwork(kv_tokens=100), at([0.0, 1.0], [90, 50], 20))
    assert (outcome.refused, outcome.requests) == (1, 2)
    assert total(outcome, FINISHED) == 1


def test_speculation_commits_as_many_tokens_a_step_as_the_model_says() -> None:
    for spread in (0.0, 0.8):
        acceptance = replace(USUAL, spread=spread)
        replica = clockwork(policy="fixed:4", acceptance=acceptance, max_batch_size=16)
        outcome = played(replica, at([0.0] * 2000, 10, 300))
        expected = float(expected_length(USUAL.first, USUAL.later, USUAL.slope, 4))
        assert outcome.mean_acceptance_length == pytest.approx(expected, rel=0.015)
        assert total(outcome, ACCEPTED) == pytest.approx((expected - 1) * total(outcome, DECODED), rel=0.02)


@pytest.mark.parametrize(("policy", "gamma"), [("none", 0), ("fixed:3", 3)])
def test_a_full_batch_is_as_fast_as_the_performance_model_says(policy: str, gamma: int) -> None:
    size, prompt, output = 32, 600, 200
    replica = Replica(
        STAND_IN, H200, ENGINE, DRAFTER, USUAL, policy, max_batch_size=size, token_budget=10**6, kv_tokens=10**7
    )
    outcome = simulate(Fleet(replica), Replayed(at([0.0] * 3000, prompt, output), 40.0), warm_up=0.2)
    context = prompt + output / 2
    plain = forward_seconds(size, size, context, STAND_IN, H200, ENGINE)
    verify = forward_seconds(size * (gamma + 1), size, context, STAND_IN, H200, ENGINE)
    length = expected_length(USUAL.first, USUAL.later, USUAL.slope, gamma)
    prefill = 1.1 * forward_seconds(prompt, 1, prompt / 2, STAND_IN, H200, ENGINE)
    expected = tokens_per_second(size, draft_seconds(gamma, plain, DRAFTER) + verify, length, prefill, output)
    assert outcome.output_tokens_per_s == pytest.approx(float(expected), rel=0.03)
    assert outcome.mean_batch == pytest.approx(size, rel=0.01)
    assert outcome.utilisation == pytest.approx(1, rel=0.03)


def test_a_policy_that_never_drafts_is_plain_decoding() -> None:
    arrivals = Renewal(20, Lengths(500, 300), Lengths(100, 80), 60)
    fleets = (Fleet(Replica(STAND_IN, H200, ENGINE, DRAFTER, USUAL, policy)) for policy in ("none", "fixed:0"))
    plain, off = (simulate(fleet, arrivals).to_dict() for fleet in fleets)
    assert {**off, "policy": "none"} == plain


def test_the_oracle_is_not_beaten_by_a_fixed_gamma() -> None:
    arrivals = Renewal(12, Lengths(500), Lengths(200, 100), 120)
    means = {}
    for policy in ("none", "fixed:1", "fixed:3", "fixed:7", "goodput", "oracle"):
        replica = Replica(STAND_IN, H200, ENGINE, DRAFTER, replace(USUAL, spread=0.5), policy)
        means[policy] = simulate(Fleet(replica), arrivals).tpot.mean().value
    assert min(means.values()) >= 0.98 * means["oracle"]
    assert means["goodput"] < means["none"]


def test_the_same_seed_gives_the_same_outcome_and_another_one_another() -> None:
    fleet = Fleet(clockwork(policy="threshold", max_batch_size=4, acceptance=replace(USUAL, spread=1.0)), 3, "random")
    arrivals = Renewal(10, Lengths(50), Geometric(40), 100)
    one, same, other = (simulate(fleet, arrivals, seed).to_dict() for seed in (1, 1, 2))
    assert one == same
    assert one != other


@settings(max_examples=60)
@given(
    requests=st.lists(
        st.tuples(st.floats(0, 3), st.integers(1, 60), st.integers(1, 40), st.integers(0, 5)), min_size=1, max_size=60
    ),
    policy=st.sampled_from(
        ["none", "fixed:3", "threshold", "goodput", "tiers", "utility", "oracle", "schedule:1=2+3=0"]
    ),
    router=st.sampled_from(["round-robin", "random", "shortest-queue", "prefix-affinity"]),
    replicas=st.integers(1, 3),
    batch=st.integers(1, 6),
    budget=st.integers(48, 200),
    cache=st.integers(60, 400),
    block=st.integers(1, 8),
    prefixes=st.booleans(),
)
def test_every_token_of_every_request_comes_out_once(
    requests: list[tuple[float, int, int, int]],
    policy: str,
    router: str,
    replicas: int,
    batch: int,
    budget: int,
    cache: int,
    block: int,
    prefixes: bool,
) -> None:
    """That all blocks of the cache are free at the end is asserted by every simulation."""
    requests = sorted(requests)
    times, prompts, outputs, sessions = (list(column) for column in zip(*requests, strict=True))
    replica = clockwork(
        policy=policy,
        max_batch_size=batch,
        token_budget=budget,
        kv_tokens=cache,
        block_tokens=block,
        prefix_caching=prefixes,
    )
    outcome = played(replica, at(times, prompts, outputs, sessions), replicas, router)
    room = cache // block * block
    fits = [p + o + _largest(policy) <= room for p, o in zip(prompts, outputs, strict=True)]
    assert outcome.refused == fits.count(False)
    assert total(outcome, FINISHED) == fits.count(True)
    served = [(p, o) for p, o, fit in zip(prompts, outputs, fits, strict=True) if fit]
    assert total(outcome, EMITTED) == sum(o for _, o in served)
    computed = total(outcome, PREFILLED) + total(outcome, REUSED)
    assert computed >= sum(p for p, _ in served)
    if total(outcome, PREEMPTED) == 0:
        assert computed == sum(p for p, _ in served)
    if policy == "none" and total(outcome, PREEMPTED) == 0:
        assert total(outcome, DECODED) == sum(o - 1 for _, o in served)


def _largest(policy: str) -> int:
    return {"none": 0, "fixed:3": 3, "schedule:1=2+3=0": 2}.get(policy, 7)


_SMALL = """
import json, sys
from clockwork import USUAL, Geometric, clockwork
from dataclasses import replace
from specbench.planning.simulator import Failures, Fleet, Renewal, simulate
from specbench.planning.simulator.compiled import FAST
from specbench.workloads.traffic_spec import Lengths
replica = clockwork(policy=sys.argv[1], max_batch_size=3, kv_tokens=300, acceptance=replace(USUAL, spread=1.0))
fleet = Fleet(replica, 3, "shortest-queue", Failures(5, 1))
print(json.dumps(simulate(fleet, Renewal(8, Lengths(30, 20), Geometric(20), 15)).to_dict()))
"""


@pytest.mark.parametrize("policy", ["threshold", "fixed:3"])
def test_without_numba_the_outcome_is_the_same(policy: str) -> None:
    """Disabled, numba leaves the functions as they are, as their absence does."""
    here = str(Path(__file__).parent)
    compiled, plain = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", _SMALL, policy],
                env={**os.environ, "PYTHONPATH": here, "NUMBA_DISABLE_JIT": disabled},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for disabled in ("0", "1")
    )
    assert compiled["failures"] > 0
    for name, value in compiled.items():
        assert plain[name] == (value if isinstance(value, str) else pytest.approx(value, rel=1e-9)), name


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"policy": "fixed:3", "drafting": None}, "nothing is known of the drafter"),
        ({"max_batch_size": 64, "token_budget": 100, "policy": "fixed:3"}, "raise the token budget to 256"),
        ({"kv_tokens": 0}, "kv tokens must be 1 or more"),
        ({"drafted_share": 0.0}, "drafted share"),
    ],
)
def test_settings_that_no_engine_would_start_with_are_refused(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(SpecbenchError, match=said):
        clockwork(**wrong)


def test_a_latency_quantile_is_right_to_a_bin() -> None:
    rng = np.random.default_rng(0)
    outputs = rng.integers(1, 400, 500).tolist()
    outcome = played(clockwork(max_batch_size=500), at([0.0] * 500, 1, outputs))
    for q in (0.5, 0.9, 0.99):
        assert outcome.e2e.quantile(q).value == pytest.approx(np.quantile(np.array(outputs) * STEP, q), rel=0.02)


def test_acceptance_of_requests_that_differ_shows_in_their_latency() -> None:
    even, uneven = (
        played(clockwork(policy="fixed:5", acceptance=Acceptance(1.0, 1.0, 0.0, spread)), at([0.0] * 300, 1, 400)).tpot
        for spread in (0.0, 1.5)
    )
    widths = [t.quantile(0.95).value / t.quantile(0.05).value for t in (even, uneven)]
    assert widths[1] > 2 * widths[0]
