"""What differs between the engines' streams: what to ask for, and where acceptance is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specbench.replay.records import RequestAcceptance


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way of speaking OpenAI's protocol.

    request_fields: added to every request body, so that tokens can be counted exactly
    acceptance: reads one event's body; None where it says nothing of acceptance
    """

    request_fields: Mapping[str, Any]
    acceptance: Callable[[Mapping[str, Any]], RequestAcceptance | None]


def _vllm_acceptance(event: Mapping[str, Any]) -> RequestAcceptance | None:
    """`metrics.speculative_decoding` of the final chunk (vLLM's --per-request-spec-decode-metrics).

    vLLM counts and lists the steps that had a draft; the reference decoder, in the same shape, has all of them. The
    rest follows from the tokens: one is the prefill's, every step gives one and what it accepted. vLLM counts the
    last draft whole even where the token limit cuts it, so that the rest may come out lower than what it counted.
    """
    report = (event.get("metrics") or {}).get("speculative_decoding")
    if not report:
        return None
    accepted: int = report["num_accepted_draft_tokens"]
    tokens = (event.get("usage") or {}).get("completion_tokens") or 0
    # The lists are left out of a request in which nothing was drafted, as if they had not been asked for.
    lists = report if report["num_spec_steps"] else {"per_step_drafted": (), "per_step_accepted": ()}
    return RequestAcceptance(
        steps=max(report["num_spec_steps"], tokens - 1 - accepted),
        drafted=report["num_draft_tokens"],
        accepted=accepted,
        per_step_drafted=_tuple(lists.get("per_step_drafted")),
        per_step_accepted=_tuple(lists.get("per_step_accepted")),
    )


def _sglang_acceptance(event: Mapping[str, Any]) -> RequestAcceptance | None:
    """`sglext.spec_tokens_details`, an event of its own before the usage.

    Drafted is nominal: gamma for every verification pass, however short the draft was.
    """
    report = (event.get("sglext") or {}).get("spec_tokens_details")
    if not report:
        return None
    histogram = report.get("spec_correct_drafts_histogram")  # how many passes accepted 0, 1, … gamma tokens
    return RequestAcceptance(
        steps=report["spec_verify_ct"],
        drafted=report["spec_num_proposed_drafts"],
        accepted=report["spec_num_correct_drafts"],
        by_position=None if histogram is None else tuple(sum(histogram[k:]) for k in range(1, len(histogram))),
    )


def _tensorrt_llm_acceptance(event: Mapping[str, Any]) -> RequestAcceptance | None:
    """`avg_decoded_tokens_per_iter` of the choice that ends the stream: output tokens over iterations.

    The prefill is one of these iterations and gives one of these tokens (the sampler counts it, py_decoding_iter).
    Accepted is what the steps gave beyond one token each, one too few where the end cut off the last one's own token.
    """
    choice = next(iter(event.get("choices") or ()), None) or {}
    mean, tokens = choice.get("avg_decoded_tokens_per_iter"), (event.get("usage") or {}).get("completion_tokens")
    if not mean or not tokens or choice.get("finish_reason") is None:
        return None
    steps = round(tokens / mean) - 1
    return RequestAcceptance(steps=steps, drafted=None, accepted=tokens - 1 - steps)


def _tuple(values: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if values is None else tuple(values)


VLLM = Dialect(
    request_fields={
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
    acceptance=_vllm_acceptance,
)
"""vLLM, and the reference decoder, which speaks as vLLM does."""

SGLANG = Dialect(
    request_fields={
        "return_spec_tokens_details": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
    acceptance=_sglang_acceptance,
)
"""SGLang: tokens are counted by the usage in every event, it sends no ids on OpenAI's endpoints."""

TENSORRT_LLM = Dialect(
    request_fields={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    acceptance=_tensorrt_llm_acceptance,
)
"""TensorRT-LLM, which refuses a request with a field that it does not know."""
