"""Outputs are compared by id, index and whole length; only a measured near tie excuses a difference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import output_of, request

from specbench.equivalence.greedy import (
    Divergence,
    Margins,
    compare,
    divergence_bound,
    first_divergence,
    judge,
    judge_baseline,
    noise_floor,
)
from specbench.replay.records import RequestTrace

TOKENS = st.lists(st.integers(0, 3), max_size=8)
BASELINE = [request(i) for i in range(10)]


def changed(index: int, position: int = 20, token: int = 7) -> RequestTrace:
    ids = output_of(f"p{index:03}", 41)
    return request(index, token_ids=(*ids[:position], token, *ids[position + 1 :]))


def with_changes(*changes: RequestTrace) -> list[RequestTrace]:
    by_index = {t.index: t for t in changes}
    return [by_index.get(t.index, t) for t in BASELINE]


def margins(*values: tuple[int, float | None], epsilon: float | None = 0.1) -> Margins:
    rows = [
        {"cell": "c", "prompt_id": f"p{index:03}", "index": index, "position": 20, "token": 7, "margin": margin}
        for index, margin in values
    ]
    return Margins.from_json({"epsilon": epsilon, "margins": rows})


@given(TOKENS, TOKENS)
def test_sequences_are_equal_exactly_when_nothing_diverges(a: list[int], b: list[int]) -> None:
    position = first_divergence(a, b)
    assert (position is None) == (a == b)
    if position is not None:
        assert a[:position] == b[:position]
        assert a[position : position + 1] != b[position : position + 1]


def test_an_output_that_merely_ends_earlier_differs_at_its_end() -> None:
    short = request(3, token_ids=output_of("p003", 30))
    assert compare(BASELINE, with_changes(short)).divergences == (
        Divergence(3, "p003", 30, output_of("p003", 41)[30], None),
    )
    longer = request(3, token_ids=(*output_of("p003", 41), 7))
    assert compare(BASELINE, with_changes(longer)).divergences == (Divergence(3, "p003", 41, None, 7),)


def test_text_does_not_count_and_order_does_not_matter() -> None:
    outputs = [request(i, text="something else") for i in reversed(range(10))]
    found = compare(BASELINE, outputs)
    assert (found.requests, found.divergences, found.uncompared) == (10, (), 0)


def test_missing_failed_and_anonymous_requests_are_not_compared() -> None:
    outputs = [
        *BASELINE[:7],
        request(7, error="timeout"),
        RequestTrace(**{**{f: getattr(BASELINE[8], f) for f in RequestTrace.__dataclass_fields__}, "token_ids": None}),
    ]
    found = compare(BASELINE, outputs)
    assert (found.requests, found.uncompared, found.divergences) == (7, 3, ())
    assert "3 requests not compared" in judge("c", BASELINE, [outputs], Margins(), seeded=True).detail


def test_identical_outputs_are_exact_and_the_power_is_said() -> None:
    found = judge("c", BASELINE, [BASELINE, BASELINE], Margins(), seeded=True)
    assert (found.verdict, found.prompts, found.requests) == ("EXACT", 10, 20)
    assert found.detail == "all 20 requests identical; 0 divergent in 10 prompts bounds the rate below 25.9% (95% sure)"


def test_a_margin_up_to_epsilon_is_a_near_tie_and_the_worst_request_decides() -> None:
    outputs = with_changes(changed(2), changed(5))
    near = judge("c", BASELINE, [outputs], margins((2, 0.1), (5, 0.0)), seeded=True)
    assert (near.verdict, len(near.near_ties), len(near.divergent)) == ("NEAR_TIE", 2, 0)
    mixed = judge("c", BASELINE, [outputs], margins((2, 0.1), (5, 0.11)), seeded=True)
    assert (mixed.verdict, len(mixed.near_ties), len(mixed.divergent)) == ("DIVERGENT", 1, 1)


@pytest.mark.parametrize("asked", [Margins(), margins((2, None)), margins((2, 0.01), epsilon=None), margins((3, 0.01))])
def test_a_difference_without_an_explanation_is_divergent(asked: Margins) -> None:
    found = judge("c", BASELINE, [with_changes(changed(2))], asked, seeded=True)
    assert found.verdict == "DIVERGENT"


def test_a_difference_is_unprobed_unless_the_baseline_was_asked_and_epsilon_is_known() -> None:
    outputs = [with_changes(changed(2))]
    asked = {
        "never": Margins(),
        "without epsilon": margins((2, 0.01), epsilon=None),
        "token too unlikely": margins((2, None)),
        "margin too wide": margins((2, 0.5)),
    }
    unprobed = {name: judge("c", BASELINE, outputs, m, seeded=True).unprobed for name, m in asked.items()}
    assert unprobed == {"never": 1, "without epsilon": 1, "token too unlikely": 0, "margin too wide": 0}
    ended = [with_changes(request(2, token_ids=output_of("p002", 20)))]
    found = judge("c", BASELINE, ended, margins((2, None)), seeded=True)
    assert (found.verdict, found.unprobed, "not probed" in found.detail) == ("DIVERGENT", 1, True)


def test_a_margin_explains_its_own_cell_position_and_token_only() -> None:
    asked = margins((2, 0.01))
    assert judge("other", BASELINE, [with_changes(changed(2))], asked, seeded=True).verdict == "DIVERGENT"
    assert judge("c", BASELINE, [with_changes(changed(2, position=21))], asked, seeded=True).verdict == "DIVERGENT"
    assert judge("c", BASELINE, [with_changes(changed(2, token=8))], asked, seeded=True).verdict == "DIVERGENT"


def test_what_cannot_be_compared_is_not_checked_and_says_why() -> None:
    sampled = judge("c", BASELINE, [BASELINE], Margins(), seeded=False)
    alone = judge("c", None, [BASELINE], Margins(), seeded=True)
    nothing = judge("c", BASELINE, [[request(0, error="timeout")]], Margins(), seeded=True)
    assert {e.verdict for e in (sampled, alone, nothing)} == {"NOT_CHECKED"}
    assert "by chance" in sampled.detail
    assert "no baseline" in alone.detail
    assert "no request was answered" in nothing.detail


@pytest.mark.parametrize(("prompts", "percent"), [(300, 1.0), (2_995, 0.1)])
def test_the_bound_is_the_rule_of_three_made_exact(prompts: int, percent: float) -> None:
    assert divergence_bound(prompts) * 100 <= percent < divergence_bound(prompts - 4) * 100 * 1.02


def test_the_noise_floor_counts_how_often_the_baseline_differs_from_itself() -> None:
    larger_batch = [*with_changes(changed(2), changed(4)), request(10), request(11)]
    floor = noise_floor([BASELINE, BASELINE, larger_batch])
    assert (floor.compared, floor.differing, floor.rate) == (20, 2, 0.1)
    assert noise_floor([BASELINE]).rate is None


def test_a_baseline_is_exact_while_it_reproduces_itself() -> None:
    assert judge_baseline([BASELINE], seeded=True).verdict == "EXACT"
    assert judge_baseline([BASELINE, BASELINE], seeded=True).verdict == "EXACT"
    unstable = judge_baseline([BASELINE, with_changes(changed(2))], seeded=True)
    assert (unstable.verdict, "1 of 10" in unstable.detail) == ("NOT_CHECKED", True)
    assert judge_baseline([BASELINE], seeded=False).verdict == "NOT_CHECKED"
    assert judge_baseline([], seeded=True).verdict == "NOT_CHECKED"


def test_once_a_conversation_went_apart_its_next_turns_are_not_compared() -> None:
    def talk(first: RequestTrace) -> list[RequestTrace]:
        apart = first.token_ids != BASELINE[0].token_ids
        return [
            first,
            request(1),
            request(2, follows=0, token_ids=output_of("another question", 41) if apart else None),
            request(3, follows=2, token_ids=output_of("yet another", 41) if apart else None),
            request(4, follows=1),
        ]

    same = compare(talk(request(0)), talk(request(0)))
    assert (same.requests, same.uncompared, same.divergences) == (5, 0, ())
    found = compare(talk(request(0)), talk(changed(0)))
    assert [d.index for d in found.divergences] == [0]
    assert (found.requests, found.uncompared) == (3, 2)
    floor = noise_floor([talk(request(0)), talk(changed(0))])
    assert (floor.compared, floor.differing) == (2, 1)
