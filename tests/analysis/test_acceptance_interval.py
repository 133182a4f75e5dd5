"""Intervals of acceptance: how often they hold what all prompts of that kind would give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from known_run import request

from specbench.analysis.acceptance_interval import acceptance_intervals
from specbench.replay.records import RequestAcceptance, RequestTrace

GAMMA = 4


def asked(steps: int, accepted: int, prompt: str, drafted: int | None = -1) -> RequestTrace:
    drafted = GAMMA * steps if drafted == -1 else drafted
    return replace(request(prompt_id=prompt), acceptance=RequestAcceptance(steps, drafted, accepted))  # type: ignore[arg-type]


def test_19_of_20_hold_the_acceptance_length_of_all_prompts() -> None:
    """Prompts with acceptance and lengths of their own, correlated, under a heavy tail of lengths."""
    rng, prompts, held, runs = np.random.default_rng(17), 60, 0, 200
    steps = np.maximum(2, rng.lognormal(3, 0.8, 400_000)).astype(int)
    rate = np.clip(0.3 + 0.05 * np.log(steps) + 0.1 * rng.standard_normal(len(steps)), 0.01, 0.99)
    truth = 1 + GAMMA * (steps * rate).sum() / steps.sum()
    for run in range(runs):
        chosen = slice(run * prompts, (run + 1) * prompts)
        accepted = rng.binomial(GAMMA * steps[chosen], rate[chosen])
        traces = [asked(int(s), int(a), str(i)) for i, (s, a) in enumerate(zip(steps[chosen], accepted, strict=True))]
        found = acceptance_intervals(traces)
        held += found["mean_acceptance_length_ci_low"] <= truth <= found["mean_acceptance_length_ci_high"]
    assert 0.89 < held / runs < 0.98


def test_both_ratios_have_one_and_it_holds_the_figure() -> None:
    found = acceptance_intervals([asked(10, 12, "a"), asked(20, 50, "b"), asked(5, 2, "c")])
    length, rate = 1 + 64 / 35, 64 / (GAMMA * 35)
    assert found["mean_acceptance_length_ci_low"] < length < found["mean_acceptance_length_ci_high"]
    assert found["draft_acceptance_rate_ci_low"] < rate < found["draft_acceptance_rate_ci_high"]
    assert found["draft_acceptance_rate_ci_high"] <= 50 / 80 + 1e-9


def test_the_same_prompt_ten_times_over_is_one_observation() -> None:
    once = [asked(10, 12, "a"), asked(20, 50, "b"), asked(5, 2, "c")]
    assert acceptance_intervals(once * 10) == pytest.approx(acceptance_intervals(once))


def test_what_the_engine_does_not_say_has_no_interval() -> None:
    assert acceptance_intervals([asked(10, 12, "a"), replace(request(), acceptance=None)]) == {}
    without = acceptance_intervals([asked(10, 12, "a", None), asked(5, 2, "b", None)])
    assert set(without) == {"mean_acceptance_length_ci_low", "mean_acceptance_length_ci_high"}
