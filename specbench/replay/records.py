"""What replay hands on: one trace per request, whatever backend served it."""

from __future__ import annotations

from dataclasses import dataclass

REFUSED = "the server answered 4"
"""How the error of a request begins that the server would not take (HTTP 4xx)."""

BUSY = ("the server answered 429", "the server answered 503")
"""How it begins where the server had no room for it, or has had enough of this client."""


@dataclass(frozen=True, slots=True)
class RequestAcceptance:
    """What the engine said of one request's speculation (None where it says nothing).

    steps:       verification passes of this request (the prefill is none)
    drafted:     tokens proposed; None if the engine does not say
    accepted:    proposed tokens that were kept (bonus tokens not counted); a token limit may have cut the last of them
    per_step_drafted, per_step_accepted: the same step by step; steps without a draft may be left out (vLLM's are).
        None if the engine gives sums only
    per_step_gamma: what a rule let each step draft, 0 while it suspends the request; None where gamma stays, or is not
        told
    by_position: accepted at draft position k (0-based), where the engine says so but does not list its steps
    """

    steps: int
    drafted: int | None
    accepted: int
    per_step_drafted: tuple[int, ...] | None = None
    per_step_accepted: tuple[int, ...] | None = None
    per_step_gamma: tuple[int, ...] | None = None
    by_position: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """One request as the client saw it. Times are seconds on one monotonic clock shared by all traces of a cell.

    index:       position in the cell's request order (0-based); warm-up requests never become traces
    prompt_id:   the workload's id of the prompt;  category: the workload's, or None
    scheduled:   when the request was due: its slot became free (closed loop) or its arrival time (open loop)
    sent:        when its first byte left;  finished: when its stream ended
    chunk_times, chunk_tokens: arrival time and token count of every chunk that carried tokens, equal lengths
    token_ids:   output ids in order, or None where the server gives none (then counts come from usage)
    text:        decoded output as streamed
    finish_reason: "stop", "length", … or None;  error: a sentence when the request failed, else None
    seed:        the seed that was sent, or None
    follows:     index of the request whose answer this one replies to, the turn before; None of a first turn
    """

    index: int
    prompt_id: str
    category: str | None
    scheduled: float
    sent: float
    finished: float
    chunk_times: tuple[float, ...]
    chunk_tokens: tuple[int, ...]
    prompt_tokens: int | None
    output_tokens: int
    prompt_token_ids: tuple[int, ...] | None
    token_ids: tuple[int, ...] | None
    text: str
    finish_reason: str | None
    error: str | None
    seed: int | None
    acceptance: RequestAcceptance | None
    follows: int | None = None


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """What a closed or an open loop brought home.

    traces: in request order, failed requests included
    started, finished: seconds on the clock of the traces
    client_lag_p99: 99th percentile of the event loop's own delay, seconds; None for a run too short to probe
    """

    traces: tuple[RequestTrace, ...]
    started: float
    finished: float
    client_lag_p99: float | None
