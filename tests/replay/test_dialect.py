"""Acceptance where each engine tells it: vLLM's as a real server sent it, the others' as their sources have it."""

from __future__ import annotations

from typing import Any

from specbench.replay.dialect import SGLANG, TENSORRT_LLM, VLLM
from specbench.replay.records import RequestAcceptance


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


def test_sglang_tells_sums_and_a_histogram_in_an_event_of_its_own() -> None:
    details = {
        "spec_verify_ct": 6,
        "spec_num_correct_drafts": 9,
        "spec_num_proposed_drafts": 18,
        "spec_accept_length": 16 / 6,
        "spec_correct_drafts_histogram": [1, 2, 2, 1],
    }
    told = {"choices": [], "usage": None, "sglext": {"spec_tokens_details": details}}
    # Of six passes five kept position 0, three position 1, one position 2.
    assert SGLANG.acceptance(told) == RequestAcceptance(6, 18, 9, by_position=(5, 3, 1))
    assert SGLANG.acceptance({"choices": [], "usage": {"completion_tokens": 16}}) is None


def test_tensorrt_llm_tells_tokens_per_iteration_with_the_last_tokens() -> None:
    """17 tokens in 7 iterations: one from the prefill, six steps, so ten beyond one a step."""
    choice = {"finish_reason": "length", "avg_decoded_tokens_per_iter": 17 / 7}
    ended = {"choices": [choice], "usage": {"completion_tokens": 17}}
    assert TENSORRT_LLM.acceptance(ended) == RequestAcceptance(steps=6, drafted=None, accepted=10)
    running = {"choices": [{**choice, "finish_reason": None}], "usage": {"completion_tokens": 17}}
    assert TENSORRT_LLM.acceptance(running) is None
    silent = {"choices": [{**choice, "avg_decoded_tokens_per_iter": None}], "usage": {"completion_tokens": 17}}
    assert TENSORRT_LLM.acceptance(silent) is None
