"""What differs between the engines' streams: what to ask for, and where acceptance is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from specbench.replay.records import RequestAcceptance

TokenIds = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One engine's way of speaking OpenAI's protocol.

    request_fields: added to every request body, so that tokens can be counted exactly
    acceptance: reads one event's body; None where it says nothing of acceptance
    endpoint_fields: added to those of one endpoint, by its path
    all_ids: reads the ids of the prompt and of the whole output from an event after the last token; None where it has
        none, as nearly all events
    keep_alive: whether a connection serves several requests; some servers close it under the next one
    """

    request_fields: Mapping[str, Any]
    acceptance: Callable[[Mapping[str, Any]], RequestAcceptance | None]
    endpoint_fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    all_ids: Callable[[Mapping[str, Any]], tuple[TokenIds | None, TokenIds] | None] = lambda event: None
    keep_alive: bool = True

    def fields(self, path: str) -> dict[str, Any]:
        """What is added to a request to the endpoint."""
        return {**self.request_fields, **self.endpoint_fields.get(path, {})}


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
        per_step_gamma=_tuple(lists.get("per_step_gamma")),
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


def _sglang_ids(event: Mapping[str, Any]) -> tuple[TokenIds | None, TokenIds] | None:
    """`sglext.input_ids` and `output_ids`, the latter a list for each choice; of chats alone."""
    told = event.get("sglext") or {}
    output, prompt = told.get("output_ids"), told.get("input_ids")
    return (None if prompt is None else tuple(prompt), tuple(output[0])) if output else None


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


def _llama_cpp_acceptance(event: Mapping[str, Any]) -> RequestAcceptance | None:
    """`timings` of the closing event: tokens drafted and kept, left out of a request in which nothing was drafted.

    Steps follow from the tokens: one is the prefill's, every step gives one and what it accepted.
    """
    timings = event.get("timings")
    if not timings:
        return None
    accepted: int = timings.get("draft_n_accepted", 0)
    return RequestAcceptance(
        steps=max(timings["predicted_n"] - 1 - accepted, 0), drafted=timings.get("draft_n", 0), accepted=accepted
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

SGLANG = Dialect(
    request_fields={
        "return_spec_tokens_details": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
    acceptance=_sglang_acceptance,
    endpoint_fields={
        "/v1/completions": {"return_token_ids": True},
        "/v1/chat/completions": {"return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True},
    },
    all_ids=_sglang_ids,
)
"""SGLang. Events of a completion carry their ids, those of a chat do not, and are refused if asked to: there tokens are
counted by the usage in every event, and all ids come at the end.
"""

TENSORRT_LLM = Dialect(
    request_fields={"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    acceptance=_tensorrt_llm_acceptance,
)
"""TensorRT-LLM, which refuses a request with a field that it does not know."""

LLAMA_CPP = Dialect(
    request_fields={
        "stream_options": {"include_usage": True},
        # It answers from the cache of an earlier prompt, and cuts the distribution, unless a request says otherwise.
        "cache_prompt": False,
        "top_k": 0,
        "min_p": 0,
    },
    acceptance=_llama_cpp_acceptance,
    keep_alive=False,  # promised in its headers, and closed after every stream
)
"""llama.cpp's server: no token ids, usage at the end alone."""


def _nothing(event: Mapping[str, Any]) -> None:
    """What a server tells of acceptance that has no words for it."""


OPENAI_CONTINUOUS = Dialect(
    request_fields={"stream_options": {"include_usage": True, "continuous_usage_stats": True}}, acceptance=_nothing
)
"""Any server that counts tokens in every event."""

OPENAI = Dialect(request_fields={"stream_options": {"include_usage": True}}, acceptance=_nothing)
"""OpenAI's protocol as it is documented: usage at the end alone. Text Generation Inference, hosted APIs."""
