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
