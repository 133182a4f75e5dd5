"""Compiled rules decide as those that the decoder runs; the engines' own as they are described."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from clockwork import CLOCK, FREE, USUAL
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.decoder.policies import parse
from specbench.decoder.policies.base import Step
from specbench.decoder.policies.goodput import GoodputPolicy, GoodputRule
from specbench.errors import SpecbenchError
from specbench.planning.machine import UNKNOWN
from specbench.planning.performance import Drafting
from specbench.planning.shape import STAND_IN
from specbench.planning.simulator import POLICIES, Replica, rules
from specbench.planning.simulator.policy import read_policy
from specbench.planning.simulator.state import REQUEST
from specbench.planning.simulator.step_time import Cost, decode_seconds
from specbench.planning.simulator.survival import survival

BATCH = 64
CONTEXT = 100.0
DRAFT = 5e-4
"""Seconds of a pass of the drafter on top of its share of a plain one, of the target's ten milliseconds."""


class KnowsCosts(GoodputPolicy):
    """The decoder's rule, told what the simulated machine's steps take."""

    def __init__(self, rule: GoodputRule, cost: Cost) -> None:
        super().__init__(rule)
        self.cost = cost

    def seconds(self, size: int, gamma: int) -> float:
        return decode_seconds(self.cost, gamma, float(size), size * CONTEXT)


class Table:
    """Sessions and the rule that sets their gamma, as the engine asks it."""

    def __init__(self, policy: str, sessions: int, drafting: Drafting = FREE) -> None:
        read = read_policy(policy)
        self.rule = rules.rule_of(read, survival(USUAL, read.largest), BATCH)
        self.cost = Cost.of(Replica(STAND_IN, UNKNOWN, CLOCK, drafting, USUAL, max_batch_size=BATCH))
        self.row = rules.first_row(self.rule, BATCH)
        self.pool: Any = np.zeros(sessions, REQUEST).view(np.recarray)
        for request in self.pool:
            rules.begin_session(self.rule, request)

    def choose(self, present: Sequence[int]) -> list[int]:
        batch = np.array(present, np.int32)
        n = len(batch)
        rules.choose(self.rule, self.cost, self.row, self.pool, batch, n, n, n * CONTEXT)
        return [int(self.pool[i].gamma) for i in present]

    def observe(self, present: Sequence[int], accepted: Sequence[int], seconds: float = 1.0) -> None:
        rules.fade(self.rule, self.row, len(present))
        for i, kept in zip(present, accepted, strict=True):
            rules.note(self.rule, self.row, self.pool[i], kept)
        rules.end_step(self.rule, self.row, len(present), sum(accepted), seconds)

    def run(self, steps: int, batch: int, keep: Callable[[int], int], seconds: Callable[[int], float]) -> list[int]:
        """Common gammas of steps in which each sequence keeps `keep(gamma)` tokens."""
        present, seen = list(range(batch)), []
        for _ in range(steps):
            gamma = self.choose(present)[0]
            seen.append(gamma)
            self.observe(present, [keep(gamma)] * batch, seconds(gamma))
        return seen


@pytest.mark.parametrize(
    "policy",
    [
        "fixed:3",
        "schedule:1=4+3=2+5=0",
        "threshold",
        "threshold+max=5+on=drafted",
        "threshold+max=2+above=0.6+below=0.4",
        "goodput",
        "goodput+max=3",
    ],
)
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.floats(0.2, 0.98))
def test_our_rules_decide_as_in_the_decoder(policy: str, seed: int, kept: float) -> None:
    """Sessions come and go; each has an acceptance of its own."""
    random = np.random.default_rng(seed)
    ours = Table(policy, 8, Drafting(0.05, DRAFT))
    if policy.startswith("goodput"):
        rule = GoodputRule(int(policy.partition("=")[2] or 7))
        theirs: Any = KnowsCosts(rule, ours.cost)
    else:
        theirs = parse(f"adaptive:{policy}" if policy.startswith("threshold") else policy.removeprefix("fixed:"))
    each = np.clip(random.normal(kept, 0.2, 8), 0, 1)
    for _ in range(300):
        present = [i for i in range(8) if random.random() < 0.6] or [0]
        asked = theirs.choose(present)
        assert ours.choose(present) == asked
        drafts = [random.random(gamma) < each[i] for i, gamma in zip(present, asked, strict=True)]
        accepted = [int(np.cumprod(draft).sum()) for draft in drafts]
        ours.observe(present, accepted)
        theirs.observe(Step(present, asked, asked, accepted, 1.0))


def test_tiers_climb_while_drafts_are_kept_and_come_down_when_they_are_not() -> None:
    table = Table("tiers", BATCH)
    up = table.run(60, 1, lambda gamma: gamma, lambda _: 1.0)
    assert up[0] == 3
    assert up[-1] == 7
    assert up == sorted(up)
    down = table.run(120, 1, lambda _: 0, lambda _: 1.0)
    assert down[-1] == 1, "the tier of batch size 1 never stops drafting"


def test_tiers_stop_at_larger_batches_and_try_again() -> None:
    table = Table("tiers", BATCH)
    seen = table.run(200, 8, lambda _: 0, lambda _: 1.0)
    assert 0 in seen
    stopped = seen.index(0)
    assert 1 in seen[stopped:], "after some steps the smallest draft is tried"
    assert set(table.run(20, 64, lambda gamma: gamma, lambda _: 1.0)) == {0}


def test_utility_keeps_what_pays_and_switches_off_what_does_not() -> None:
    paying = Table("utility", 4).run(400, 4, lambda gamma: min(gamma, 3), lambda gamma: 1 + 0.1 * gamma)
    assert np.mean(np.array(paying) == 3) > 0.5
    losing = Table("utility", 4).run(1000, 4, lambda _: 0, lambda gamma: 1 + 0.1 * gamma)
    assert np.mean(np.array(losing) == 0) > 0.8
    assert max(losing[-200:]) > 0, "it goes on testing"


def test_the_oracle_takes_the_gamma_of_most_tokens_per_second() -> None:
    table = Table("oracle", 4, Drafting(0.2, 0.0))
    lengths = 1 + np.concatenate([[0.0], np.cumsum(survival(USUAL, 7)[0])])
    rates = [lengths[gamma] / decode_seconds(table.cost, gamma, 4.0, 4 * CONTEXT) for gamma in range(8)]
    assert table.choose([0, 1, 2, 3]) == [int(np.argmax(rates))] * 4


def test_policies_are_read_as_they_are_listed_and_others_refused() -> None:
    for written in POLICIES:
        assert read_policy(written).largest == {"none": 0, "fixed:3": 3}.get(written, 4 if "schedule" in written else 7)
    for wrong in ("", "fixed:x", "threshold+max=0", "schedule:2=1", "medusa", "confidence"):
        with pytest.raises(SpecbenchError, match="policy"):
            read_policy(wrong)
