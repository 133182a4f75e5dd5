"""The arithmetic of claims: known answers, and every formula with its inverse."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.cost import Economics, cost_per_million_output_tokens, gpus_needed, payback_months
from specbench.claims import arithmetic

positive = st.floats(1e-2, 1e6)
gammas = st.integers(1, 16)
shares = st.floats(0, 1)


@given(positive, st.integers(1, 64), positive)
def test_cost_rate_and_price_are_one_another_s_inverse(price: float, gpus: int, rate: float) -> None:
    cost = arithmetic.cost_per_million(price, gpus, rate)
    assert arithmetic.tokens_per_s_for(price, gpus, cost) == pytest.approx(rate)
    assert arithmetic.price_for(cost, gpus, rate) == pytest.approx(price)
    assert cost_per_million_output_tokens(rate, Economics(price, gpus)) == pytest.approx(cost)


@given(positive, positive, st.integers(1, 64))
def test_the_cost_changes_as_the_speedup_says(before: float, after: float, gpus: int) -> None:
    costs = [arithmetic.cost_per_million(2.0, gpus, rate) for rate in (before, after)]
    change = arithmetic.relative_change(*costs)
    assert change == pytest.approx(arithmetic.cost_change_at(after / before), rel=1e-6, abs=1e-9)
    assert change == pytest.approx(arithmetic.relative_change(after, before), rel=1e-6, abs=1e-9)


@given(positive, positive)
def test_payback_and_engineering_are_one_another_s_inverse(cost: float, savings: float) -> None:
    weeks = arithmetic.payback_weeks(cost, savings)
    assert arithmetic.engineering_cost_for(weeks, savings) == pytest.approx(cost)


def test_a_payback_in_weeks_is_the_sweep_s_payback_in_months() -> None:
    economics = Economics(gpu_price=2.0, engineering_cost=40_000)
    months = payback_months(5, 3, economics)
    assert months is not None
    saved = 2 * 730 * 2.0
    assert arithmetic.payback_weeks(40_000, saved) == pytest.approx(months * 52 / 12)


@given(st.floats(1e6, 1e12), st.floats(1, 1e4))
def test_replicas_are_enough_and_one_fewer_is_not(tokens: float, rate: float) -> None:
    needed, steady = arithmetic.replicas_for(tokens, rate), tokens / (730 * 3600)
    assert needed * rate >= steady * (1 - 1e-9)
    assert (needed - 1) * rate < steady
    assert needed == gpus_needed(rate, Economics(tokens_per_month=tokens))


@given(shares, gammas)
def test_no_expected_length_is_above_the_longest(alpha: float, gamma: int) -> None:
    assert 1 <= arithmetic.length(alpha, gamma) <= arithmetic.longest_length(alpha, gamma) + 1e-9 <= gamma + 1 + 2e-9


@given(st.lists(st.integers(0, 50), min_size=2, max_size=12))
def test_no_reading_of_an_acceptance_rate_allows_more_than_1_plus_gamma_times_it(steps_by_accepted: list[int]) -> None:
    """Steps that accepted 0, 1 … gamma tokens, in any mixture: as a share of drafted tokens, and pooled over trials."""
    assume(sum(steps_by_accepted))
    gamma, steps = len(steps_by_accepted) - 1, sum(steps_by_accepted)
    accepted = sum(k * n for k, n in enumerate(steps_by_accepted))
    counts = AcceptanceCounts(steps, drafted=gamma * steps, accepted=accepted)
    length, share = counts.mean_length(), counts.draft_rate()
    assert length is not None
    assert share is not None
    assert length == pytest.approx(arithmetic.longest_length(share, gamma))
    rejected = sum(steps_by_accepted[:-1])
    pooled = accepted / (accepted + rejected)
    assert length <= arithmetic.longest_length(pooled, gamma) + 1e-9


@given(gammas, st.floats(0.001, 0.5), st.floats(1, 2))
def test_at_break_even_speculation_neither_gains_nor_loses(gamma: int, c: float, v: float) -> None:
    alpha = arithmetic.break_even_acceptance(gamma, c, v)
    if alpha is None:
        assert arithmetic.modelled_speedup(1, gamma, c, v) < 1
    else:
        assert arithmetic.modelled_speedup(alpha, gamma, c, v) == pytest.approx(1)


@pytest.mark.parametrize(
    ("gamma", "verify_cost", "alpha"), [(1, 1, 0.05), (3, 1, 0.13), (5, 1, 0.20), (8, 1, 0.29), (3, 1.25, 0.29)]
)
def test_break_even_acceptance_has_no_general_threshold(gamma: int, verify_cost: float, alpha: float) -> None:
    found = arithmetic.break_even_acceptance(gamma, 0.05, verify_cost)
    assert found == pytest.approx(alpha, abs=0.006)


def test_free_drafts_break_even_at_once() -> None:
    assert arithmetic.break_even_acceptance(4, 0.0) == 0.0


@given(positive, positive)
def test_a_stream_at_the_roof_reads_the_whole_bandwidth(bandwidth: float, size: float) -> None:
    assert arithmetic.steps_per_s_roof(bandwidth, size) * size == pytest.approx(bandwidth)


@pytest.mark.parametrize(
    ("target", "drafter", "share"),
    [
        ((80, 8, 128), (16, 8, 64), 0.10),
        ((80, 8, 128), (1, 8, 128), 0.0125),
        ((32, 8, 128), (1, 8, 128), 0.03125),
        ((32, 8, 128), (16, 8, 64), 0.25),
        ((80, 8, 128), (32, 8, 128), 0.40),
    ],
)
def test_a_drafter_s_cache_is_a_share_of_the_target_s(target, drafter, share: float) -> None:  # type: ignore[no-untyped-def]
    """A 1B drafter and EAGLE-3 for 70B and 8B, and 8B for 70B (Llama 3 shapes)."""
    values = arithmetic.kv_values_per_token
    assert values(*drafter) / values(*target) == pytest.approx(share)
