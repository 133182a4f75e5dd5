"""How drafts fare, against the probabilities that they are drawn from."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from specbench.simulated.drafts import Draft, Drafts
from specbench.simulated.scenario import Drafting


def drafts(gamma: int, seed: int = 0, age: tuple[int, float] = (0, 0.0), **drafting: Any) -> Drafts:
    made = Drafting.model_validate(drafting)
    return Drafts(made, made.acceptance, gamma, random.Random(seed), age)


def kept(source: Drafts, steps: int, gamma: int) -> list[float]:
    """Share of steps in which each position was kept, of those that got there."""
    accepted = np.array([source.next().accepted for _ in range(steps)])
    return [float((accepted > k).sum() / (accepted >= k).sum()) for k in range(gamma)]


def test_each_position_is_kept_with_its_own_probability_given_those_before() -> None:
    probabilities = [0.9, 0.6, 0.3]
    shares = kept(drafts(3, acceptance={"conditional": probabilities}), 20_000, 3)
    # Five standard errors of the rarest, position 2: 20,000 × .54 of them.
    assert shares == pytest.approx(probabilities, abs=5 * (0.25 / (20_000 * 0.54)) ** 0.5)


def test_some_steps_find_no_draft() -> None:
    source = drafts(4, acceptance={"alpha": 1.0}, found=0.25)
    outcomes = [source.next() for _ in range(4_000)]
    assert set(outcomes) == {Draft(0, 0), Draft(4, 4)}
    assert sum(o.drafted > 0 for o in outcomes) / 4_000 == pytest.approx(0.25, abs=5 * (0.1875 / 4_000) ** 0.5)


def test_without_gamma_nothing_is_drafted() -> None:
    assert drafts(0).next() == Draft(0, 0)


def test_spread_keeps_the_mean_and_adds_the_variance_that_it_names() -> None:
    """Of a Beta distribution about p with c = 1/spread − 1: variance spread · p(1 − p)."""
    p, spread, requests, steps = 0.7, 0.2, 1_500, 200
    shares = [
        np.mean([s.next().accepted for _ in range(steps)])
        for s in (drafts(1, seed, acceptance={"alpha": p}, spread=spread) for seed in range(requests))
    ]
    variance = spread * p * (1 - p)
    assert np.mean(shares) == pytest.approx(p, abs=5 * (variance / requests) ** 0.5)
    assert np.var(shares) == pytest.approx(variance + p * (1 - p) / steps, rel=0.15)


def test_drift_moves_the_log_odds_with_requests_and_seconds() -> None:
    later = drafts(1, age=(10, 4.0), acceptance={"alpha": 0.5}, drift_per_request=0.1, drift_per_second=-0.5)
    expected = 1 / (1 + np.exp(-(10 * 0.1 - 4 * 0.5)))
    assert kept(later, 20_000, 1) == pytest.approx([expected], abs=5 * (0.25 / 20_000) ** 0.5)


def test_the_same_source_gives_the_same_drafts() -> None:
    first, second = (drafts(4, seed=3, spread=0.3) for _ in range(2))
    assert [first.next() for _ in range(50)] == [second.next() for _ in range(50)]
