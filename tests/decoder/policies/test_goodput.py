"""The goodput rule finds the gamma that is best by known acceptance and known costs, and notices when they change."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from gamma_simulation import Cost, Outcome, expected_tokens, simulate

from specbench.decoder.policies.base import Step
from specbench.decoder.policies.goodput import EXPLORE, TRIES, GoodputPolicy, GoodputRule

CANDIDATES = (0, 1, 2, 3, 5, 7)


def memory_bound(size: int, gamma: int) -> float:
    return 1 + 0.06 * gamma


def compute_bound(size: int, gamma: int) -> float:
    return 1 + 0.03 * size * (gamma + 1)


def dear_from_four(size: int, gamma: int) -> float:
    """A kernel that is as fast for up to four tokens as for one, and then doubles."""
    return 1 + 0.02 * gamma + (gamma >= 4)


def best(alpha: float, size: int, cost: Cost) -> int:
    return max(CANDIDATES, key=lambda gamma: expected_tokens(alpha, gamma) / cost(size, gamma))


def mostly(outcome: Outcome, last: int = 400) -> int:
    return Counter(step[0] for step in outcome.gammas[-last:]).most_common(1)[0][0]


@pytest.mark.parametrize("cost", [memory_bound, compute_bound, dear_from_four])
@pytest.mark.parametrize(("alpha", "size"), [(0.02, 4), (0.3, 4), (0.6, 1), (0.6, 8), (0.9, 4), (0.9, 32)])
def test_it_picks_the_best_gamma(cost: Cost, alpha: float, size: int) -> None:
    outcome = simulate(GoodputPolicy(GoodputRule()), [alpha] * size, cost, 1500)
    chosen, wanted = mostly(outcome), best(alpha, size, cost)

    def goodput(gamma: int) -> float:
        return expected_tokens(alpha, gamma) / cost(size, gamma)

    # Two neighbours may be as good as each other, to what a finite history can tell.
    assert goodput(chosen) >= 0.98 * goodput(wanted)
    assert outcome.tokens_per_s >= 0.93 * size * goodput(wanted)


def test_the_argmax_is_that_of_the_formula() -> None:
    policy = GoodputPolicy(GoodputRule(max=3))
    for _ in range(3000):
        (gamma,) = policy.choose(["a"])
        policy.observe(Step(["a"], [3], [3], [1], memory_bound(1, gamma)))  # position 1 always, position 2 never
    assert policy.expected_tokens(0) == 1
    assert policy.expected_tokens(1) == pytest.approx(2, abs=0.02)
    assert policy.expected_tokens(3) == pytest.approx(2, abs=0.06)
    assert policy.choose(["a"]) == [1]


def test_positions_without_evidence_are_taken_for_the_others() -> None:
    policy = GoodputPolicy(GoodputRule(max=7))
    prior = policy.expected_tokens(7)
    for _ in range(200):
        policy.observe(Step(["a"], [1], [1], [1], 1.0))
    assert policy.expected_tokens(7) > 2 * prior
    assert policy.expected_tokens(7) < 8


def test_a_drafter_that_finds_nothing_has_failed() -> None:
    policy = GoodputPolicy(GoodputRule(max=2))
    for _ in range(300):
        policy.observe(Step(["a"], [2], [0], [0], 1.0))
    assert policy.expected_tokens(2) < 1.1


def test_every_gamma_is_tried_first_and_one_hiccup_decides_nothing() -> None:
    policy, gammas = GoodputPolicy(GoodputRule()), []
    for number in range(400):
        (gamma,) = policy.choose(["a"])
        gammas.append(gamma)
        hiccup = 50.0 if number == 3 * TRIES else 0.0  # the first step with gamma 3
        policy.observe(Step(["a"], [gamma], [gamma], [min(gamma, 3)], 1 + 0.05 * gamma + hiccup))
    assert gammas[: 6 * TRIES] == [gamma for gamma in CANDIDATES for _ in range(TRIES)]
    assert Counter(gammas[-100:]).most_common(1)[0][0] == 3


def test_it_notices_when_drafts_become_good_and_when_they_become_bad() -> None:
    policy = GoodputPolicy(GoodputRule())
    for alpha, wanted in ((0.05, 0), (0.97, 7), (0.05, 0)):
        outcome = simulate(policy, [alpha] * 8, lambda size, gamma: 1 + 0.25 * gamma, 40 * EXPLORE)
        assert mostly(outcome, 200) == wanted


def test_batch_sizes_are_known_apart() -> None:
    policy, dice = GoodputPolicy(GoodputRule()), random.Random(1)
    chosen: dict[int, list[int]] = {1: [], 32: []}
    for _ in range(800):
        for size, gammas in chosen.items():
            sessions = list(range(size))
            asked = policy.choose(sessions)
            kept = [next((k for k in range(g) if dice.random() > 0.7), g) for g in asked]
            policy.observe(Step(sessions, asked, asked, kept, compute_bound(size, asked[0])))
            gammas.append(asked[0])
    for size, gammas in chosen.items():
        assert Counter(gammas[-200:]).most_common(1)[0][0] == best(0.7, size, compute_bound)


def test_requests_too_short_for_a_gamma_do_not_keep_it_trying() -> None:
    policy, gammas = GoodputPolicy(GoodputRule()), []
    for _ in range(200):
        (gamma,) = policy.choose(["a"])
        gammas.append(gamma)
        policy.observe(Step(["a"], [min(gamma, 1)], [min(gamma, 1)], [0], 1 + 0.2 * min(gamma, 1)))
    assert Counter(gammas[-100:]).most_common(1)[0][0] == 0
