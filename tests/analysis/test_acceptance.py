"""Pooled acceptance against its definitions."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import counts, request

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.acceptance import (
    breaks_token_identity,
    by_category,
    from_counters,
    from_requests,
    relative_difference,
    up_to_the_end,
)
from specbench.replay.records import RequestAcceptance, RequestTrace

GAMMA = 4
STEPS = st.lists(
    st.integers(0, GAMMA).flatmap(lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted))),
    min_size=1,
    max_size=12,
)


def speculated(steps: list[tuple[int, int]], *, cut: bool = False, category: str | None = None) -> RequestTrace:
    """A request whose steps drafted and accepted what is given; `cut` ends it inside its last accepted prefix."""
    drafted, accepted = tuple(d for d, _ in steps), tuple(a for _, a in steps)
    acceptance = RequestAcceptance(len(steps), sum(drafted), sum(accepted), drafted, accepted)
    tokens = 1 + len(steps) + sum(accepted) - cut
    return request(acceptance=acceptance, output_tokens=tokens, category=category)


def test_rates_follow_from_counts_summed_over_requests() -> None:
    pooled = from_requests([speculated([(4, 4), (4, 1)]), speculated([(4, 0), (0, 0)])], GAMMA)
    assert pooled is not None
    assert pooled.counts == AcceptanceCounts(steps=4, drafted=12, accepted=5, drafts=3, by_position=(2, 1, 1, 1))
    assert pooled.counts.mean_length() == 1 + 5 / 4
    assert pooled.counts.mean_length_per_draft() == 1 + 5 / 3
    assert pooled.counts.draft_rate() == 5 / 12
    assert pooled.counts.position_acceptance() == (2 / 4, 1 / 4, 1 / 4, 1 / 4)
    assert pooled.rejections == 2
    assert pooled.alpha() == 5 / (5 + 2)
    assert pooled.conditional == (2 / 3, 1 / 2, 1.0, 1.0)
    assert pooled.mean_length_per_request == ((1 + 5 / 2) + (1 + 0 / 2)) / 2


def test_a_request_cut_inside_its_accepted_prefix_has_rejected_nothing() -> None:
    ended = from_requests([speculated([(4, 4), (4, 2)], cut=True)], GAMMA)
    refused = from_requests([speculated([(4, 4), (4, 2)])], GAMMA)
    assert ended is not None
    assert refused is not None
    assert (ended.alpha(), refused.alpha()) == (1.0, 6 / 7)
    assert ended.conditional == (1.0, 1.0, 1.0, 1.0)
    assert refused.conditional == (1.0, 1.0, 0.5, 1.0)


def test_sums_without_single_steps_give_rates_but_no_positions_and_no_alpha() -> None:
    pooled = from_requests([request(acceptance=RequestAcceptance(10, 40, 15))], GAMMA)
    assert pooled is not None
    assert pooled.counts.mean_length() == 2.5
    assert (pooled.counts.position_acceptance(), pooled.conditional, pooled.alpha()) == (None, None, None)


def test_nothing_reported_is_none_and_not_zero() -> None:
    assert from_requests([request(), request(1)], GAMMA) is None
    assert from_counters([]) is None


@given(st.lists(STEPS, min_size=1, max_size=5))
def test_rates_stay_in_their_bounds_and_positions_add_up(requests: list[list[tuple[int, int]]]) -> None:
    pooled = from_requests([speculated(steps) for steps in requests], GAMMA)
    assert pooled is not None
    counts_ = pooled.counts
    assert counts_.by_position is not None
    assert sum(counts_.by_position) == counts_.accepted <= counts_.drafted <= GAMMA * counts_.steps
    assert 1 <= (counts_.mean_length() or 0) <= GAMMA + 1
    assert list(counts_.by_position) == sorted(counts_.by_position, reverse=True)
    assert all(0 <= p <= 1 for p in pooled.conditional or () if p is not None)
    assert pooled.alpha() is None or 0 <= (pooled.alpha() or 0) <= 1


@given(STEPS, STEPS)
def test_counters_of_full_drafts_tell_the_same_as_requests(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    whole = [[(GAMMA, accepted) for _, accepted in steps] for steps in (a, b)]
    requests = [speculated(steps) for steps in whole]
    one, other = from_requests(requests, GAMMA), from_counters([c for r in requests if (c := counts([r], GAMMA))])
    assert one is not None
    assert other is not None
    assert one.counts == other.counts
    assert one.alpha() == other.alpha()
    assert one.conditional == other.conditional
    assert relative_difference(one.counts, other.counts) == 0


def test_counters_of_uneven_drafts_tell_neither_alpha_nor_conditional_acceptance() -> None:
    pooled = from_counters([AcceptanceCounts(steps=10, drafted=25, accepted=9, drafts=8, by_position=(6, 3, 0, 0))])
    assert pooled is not None
    assert (pooled.alpha(), pooled.conditional) == (None, None)
    assert pooled.counts.position_acceptance() == (0.6, 0.3, 0.0, 0.0)


def test_drafts_are_full_while_token_limits_alone_shorten_them() -> None:
    full, uneven = (from_counters([AcceptanceCounts(steps=100, drafted=d, accepted=50)]) for d in (398, 300))
    assert full is not None
    assert uneven is not None
    assert (full.drafts_are_full(GAMMA), uneven.drafts_are_full(GAMMA)) == (True, False)


def test_the_difference_between_requests_and_counters_is_relative_to_the_larger() -> None:
    assert relative_difference(AcceptanceCounts(100, 400, 150), AcceptanceCounts(100, 400, 200)) == pytest.approx(0.25)


def test_categories_are_pooled_apart() -> None:
    code, chat = speculated([(4, 4)], category="code"), speculated([(4, 0)], category="chat")
    lengths = {n: a.counts.mean_length() for n, a in by_category([code, chat, speculated([(4, 1)])], GAMMA).items()}
    assert lengths == {"chat": 1.0, "code": 5.0}


def test_tokens_that_do_not_fit_steps_and_accepted_are_noticed() -> None:
    assert not breaks_token_identity(speculated([(4, 2), (4, 4)]))
    assert not breaks_token_identity(speculated([(4, 2), (4, 4)], cut=True))
    assert breaks_token_identity(request(acceptance=RequestAcceptance(10, 40, 15), output_tokens=30))


def test_an_engine_that_counts_a_cut_draft_whole_does_not_break_the_identity() -> None:
    # 1 + 5 steps + 20 accepted are 26; the limit of 24 cut two of the last draft's four.
    steps = RequestAcceptance(5, 20, 20, (4,) * 5, (4,) * 5)
    assert not breaks_token_identity(request(acceptance=steps, output_tokens=24))
    assert breaks_token_identity(request(acceptance=steps, output_tokens=21))
    assert breaks_token_identity(request(acceptance=steps, output_tokens=27))


def test_an_engine_that_counts_only_steps_with_a_draft_is_compared_by_those() -> None:
    requests = AcceptanceCounts(steps=90, drafted=40, accepted=10, drafts=20)
    assert relative_difference(requests, AcceptanceCounts(steps=86, drafted=40, accepted=10, drafts=20)) == 0
    assert relative_difference(requests, AcceptanceCounts(steps=90, drafted=40, accepted=10, drafts=10)) == 0.5


def test_positions_of_full_drafts_give_alpha_without_single_steps() -> None:
    """SGLang's histogram: of ten passes with three tokens each, six kept the first, four the second, one the third."""
    told = [
        RequestAcceptance(6, 18, 7, by_position=(4, 2, 1)),
        RequestAcceptance(4, 12, 4, by_position=(2, 2, 0)),
    ]
    pooled = from_requests([request(acceptance=a) for a in told], 3)
    assert pooled is not None
    assert pooled.counts.by_position == (6, 4, 1)
    assert pooled.conditional == (6 / 10, 4 / 6, 1 / 4)
    assert pooled.alpha() == 11 / (11 + 9)


def test_where_drafted_tokens_are_not_told_the_rate_is_not_and_the_length_is() -> None:
    told = RequestAcceptance(steps=6, drafted=None, accepted=10)
    pooled = from_requests([request(acceptance=told)], GAMMA)
    assert pooled is not None
    assert pooled.counts.mean_length() == 1 + 10 / 6
    assert pooled.counts.draft_rate() is None
    assert not pooled.drafts_are_full(GAMMA)
    assert relative_difference(pooled.counts, AcceptanceCounts(6, 24, 10)) == 0
    # One token per request may be the own token of a step that the end cut off; more is a difference.
    assert relative_difference(pooled.counts, AcceptanceCounts(6, 24, 9), ended=1) == 0
    assert relative_difference(pooled.counts, AcceptanceCounts(6, 24, 8), ended=1) == pytest.approx(1 / 9)


@given(STEPS)
def test_what_lies_behind_the_end_is_left_out_and_nothing_else(steps: list[tuple[int, int]]) -> None:
    """The last step's tokens beyond `emitted` never reached anyone; its own token goes first, then accepted ones."""
    whole = speculated(steps)
    last = steps[-1][1]
    for emitted in range(1, last + 2):
        cut = replace(whole, output_tokens=whole.output_tokens - (last + 1 - emitted))
        kept = up_to_the_end(cut).acceptance
        assert kept is not None
        assert kept.accepted == sum(a for _, a in steps[:-1]) + min(last, emitted)
        assert kept.per_step_accepted == (*[a for _, a in steps[:-1]], min(last, emitted))
        assert not breaks_token_identity(up_to_the_end(cut))
    assert up_to_the_end(whole) is whole
