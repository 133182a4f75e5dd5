"""Acceptance in vLLM's final event, as a real server sent it."""

from __future__ import annotations

from typing import Any

from specbench.replay.dialect import VLLM


def event(tokens: int, **report: Any) -> dict[str, Any]:
    metrics = {"time_to_first_token_ms": 124.7, "speculative_decoding": {"num_spec_tokens": 4, **report}}
    return {"choices": [], "usage": {"completion_tokens": tokens}, "metrics": metrics}


def test_a_last_draft_that_the_token_limit_cut_is_counted_whole() -> None:
    acceptance = VLLM.acceptance(
        event(
            24,
            num_spec_steps=5,
            num_accepted_draft_tokens=20,
            num_draft_tokens=20,
            per_step_accepted=[4, 4, 4, 4, 4],
            per_step_drafted=[4, 4, 4, 4, 4],
        )
    )
    assert acceptance is not None
    assert (acceptance.steps, acceptance.drafted, acceptance.accepted) == (5, 20, 20)


def test_steps_without_a_draft_follow_from_the_tokens() -> None:
    acceptance = VLLM.acceptance(
        event(
            19,
            num_spec_steps=2,
            num_accepted_draft_tokens=3,
            num_draft_tokens=8,
            per_step_accepted=[3, 0],
            per_step_drafted=[4, 4],
        )
    )
    assert acceptance is not None
    # 19 tokens: one from the prefill, 3 accepted, so 15 steps.
    assert acceptance.steps == 15
    assert acceptance.per_step_drafted == (4, 4)


def test_a_request_in_which_nothing_was_drafted_has_empty_lists_not_unknown_ones() -> None:
    acceptance = VLLM.acceptance(event(19, num_spec_steps=0, num_accepted_draft_tokens=0, num_draft_tokens=0))
    assert acceptance is not None
    assert acceptance.steps == 18
    assert acceptance.per_step_drafted == acceptance.per_step_accepted == ()


def test_a_server_without_speculation_says_nothing_of_it() -> None:
    assert VLLM.acceptance({"choices": [], "metrics": {"time_to_first_token_ms": 1.0}}) is None
    assert VLLM.acceptance({"choices": []}) is None
