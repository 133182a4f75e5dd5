"""What stands behind the OpenAI-compatible HTTP server: the types that an engine (real or simulated) speaks.

This module imports nothing of specbench, so the decoder can be lifted out together with `wire`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class RequestError(Exception):
    """A request that the server refuses: a sentence that says why, an HTTP status (4xx), and the field at fault."""

    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One completion or chat completion, parsed and checked.

    Exactly one of `prompt` (text or token ids) and `messages` is set. `seed` None lets the service choose one.
    `logprobs`: None, or how many of the most likely tokens to report at each position (0 = the chosen token only).
    """

    prompt: str | tuple[int, ...] | None = None
    messages: tuple[Mapping[str, Any], ...] | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    max_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural-log probability of an emitted token, and of the most likely ones there.

    top: (token id, text, log-probability) of each, most likely first
    """

    token_id: int
    token: str
    logprob: float
    top: tuple[tuple[int, str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Delta:
    """What one step added to a request: 1..gamma+1 tokens (none where a stop string cut them all).

    `text` lags behind the tokens where a character is not yet whole. The last delta carries `finish_reason`.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: str | None = None


class Generation(Protocol):
    """A running request. Iterate for deltas; `close` frees its place when the client has gone."""

    @property
    def prompt_token_ids(self) -> tuple[int, ...]: ...

    def __aiter__(self) -> AsyncIterator[Delta]: ...

    def metrics(self) -> Mapping[str, Any] | None:
        """Per-request figures for the final chunk, e.g. {"speculative_decoding": {...}}; None if there are none."""

    async def close(self) -> None: ...


class Service(Protocol):
    """The engine side of the server."""

    model_name: str

    async def submit(self, request: GenerationRequest) -> Generation:
        """Queue a request. Raises RequestError where it cannot be served (too long, unknown token ids…)."""

    def health(self) -> str | None:
        """None when fine, else a sentence (served as 503)."""

    def prometheus(self) -> str:
        """The text of GET /metrics (Prometheus exposition format)."""

    def server_info(self) -> Mapping[str, Any]:
        """Resolved settings and versions, the body of GET /server_info.

        `version` is also what GET /version says, and `max_model_len` what GET /v1/models adds, where they are present.
        """
