"""What differs between the engines' streams: what to ask for, and where acceptance is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

    vLLM counts the steps that had a draft; the reference decoder, in the same shape, counts all of them.
    """
    report = (event.get("metrics") or {}).get("speculative_decoding")
    if not report:
        return None
    drafted, accepted = report.get("per_step_drafted"), report.get("per_step_accepted")
    return RequestAcceptance(
        steps=report["num_spec_steps"],
        drafted=report["num_draft_tokens"],
        accepted=report["num_accepted_draft_tokens"],
        per_step_drafted=None if drafted is None else tuple(drafted),
        per_step_accepted=None if accepted is None else tuple(accepted),
    )


VLLM = Dialect(
    request_fields={
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
    acceptance=_vllm_acceptance,
)
"""vLLM, and the reference decoder, which speaks as vLLM does."""
