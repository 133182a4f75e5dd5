"""One streamed answer, from the bytes that arrived to the trace that analysis reads (no I/O: stored bytes do too)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from specbench.replay.counting import StreamedChunk, UncountableStream, tokens_per_chunk
from specbench.replay.dialect import Dialect
from specbench.replay.records import RequestAcceptance, RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.sse import SSEParser

logger = logging.getLogger(__name__)

EXCERPT = 200
"""Characters of a server's answer that an error sentence quotes."""


class Transcript:
    """Feed it bytes with their arrival times; ask for the trace when the stream has ended.

    A server that misbehaves (an error event, broken JSON, an end without a finish reason) never raises here:
    the first thing that went wrong is the trace's `error`, and what arrived before it is kept.

    redact: takes secrets out of whatever the server sent
    """

    def __init__(self, dialect: Dialect, redact: Callable[[str], str] = str) -> None:
        self._dialect = dialect
        self._redact = redact
        self._parser = SSEParser()
        self._chunks: list[StreamedChunk] = []
        self._prompt_token_ids: tuple[int, ...] | None = None
        self._all_ids: tuple[int, ...] | None = None
        self._prompt_tokens: int | None = None
        self._finish_reason: str | None = None
        self._acceptance: RequestAcceptance | None = None
        self._error: str | None = None

    def feed(self, data: bytes, time: float) -> None:
        """Read a piece of the body that arrived at `time` (seconds). Every event that it completes gets that time."""
        for event in self._parser.feed(data):
            if event == "[DONE]":
                continue
            event = self._redact(event)
            try:
                self._read(json.loads(event), time)
            except (ValueError, TypeError, KeyError, AttributeError):
                self.fail(f"the server sent an event that cannot be read: {event[:EXCERPT]}")

    def fail(self, error: str) -> None:
        """Note what went wrong, unless something went wrong before."""
        self._error = self._error or error

    def trace(self, spec: RequestSpec, *, scheduled: float, sent: float, finished: float) -> RequestTrace:
        """Everything known of the request. Times are seconds on the clock of `feed`."""
        counts, token_ids = self._counted()
        if self._finish_reason is None:
            self.fail(f"the stream ended early, after {sum(counts)} tokens and without a finish reason")
        carriers = [(chunk.time, count) for chunk, count in zip(self._chunks, counts, strict=True) if count]
        return RequestTrace(
            index=spec.index,
            prompt_id=spec.prompt_id,
            category=spec.category,
            scheduled=scheduled,
            sent=sent,
            finished=finished,
            chunk_times=tuple(time for time, _ in carriers),
            chunk_tokens=tuple(count for _, count in carriers),
            prompt_tokens=self._prompt_tokens,
            output_tokens=sum(counts),
            prompt_token_ids=self._prompt_token_ids,
            token_ids=token_ids,
            text=self._redact("".join(chunk.text for chunk in self._chunks)),
            finish_reason=self._finish_reason,
            error=self._error,
            seed=spec.seed,
            acceptance=self._acceptance,
            follows=spec.follows,
        )

    def _read(self, event: Mapping[str, Any], time: float) -> None:
        if event.get("error"):
            self.fail(f"the server failed in mid-stream: {error_message(event)}")
            return
        usage = event.get("usage") or {}
        if (prompt_tokens := _count(usage, "prompt_tokens")) is not None:
            self._prompt_tokens = prompt_tokens
        self._read_acceptance(event)
        if (ids := self._dialect.all_ids(event)) is not None:
            self._prompt_token_ids, self._all_ids = ids
        choice = next(iter(event.get("choices") or ()), None)
        # vLLM puts the prompt's ids into the choice of a completion, and beside the choices of a chat.
        prompt_ids = event.get("prompt_token_ids") or (choice or {}).get("prompt_token_ids")
        if prompt_ids is not None:
            self._prompt_token_ids = tuple(prompt_ids)
        if choice is not None:
            self._finish_reason = choice.get("finish_reason") or self._finish_reason
        token_ids = (choice or {}).get("token_ids")
        self._chunks.append(
            StreamedChunk(
                time=time,
                token_ids=None if token_ids is None else tuple(token_ids),
                completion_tokens=_count(usage, "completion_tokens"),
                text="" if choice is None else _text(choice),
                has_choice=choice is not None,
            )
        )

    def _read_acceptance(self, event: Mapping[str, Any]) -> None:
        try:
            self._acceptance = self._dialect.acceptance(event) or self._acceptance
        except (ValueError, TypeError, KeyError, AttributeError):
            # The answer itself is sound, and counters may still tell: not reported, rather than failed.
            logger.warning("acceptance of an unknown shape: %s", str(event)[:EXCERPT])

    def _counted(self) -> tuple[list[int], tuple[int, ...] | None]:
        try:
            counts = tokens_per_chunk(self._chunks)
        except UncountableStream as error:
            self.fail(f"{error}.")
            return [0] * len(self._chunks), None
        if not any(chunk.token_ids for chunk in self._chunks):
            if self._all_ids is not None and len(self._all_ids) != sum(counts):
                logger.warning("the server reports %d tokens in usage but sent %d ids", sum(counts), len(self._all_ids))
            return counts, self._all_ids
        usage = [chunk.completion_tokens for chunk in self._chunks if chunk.completion_tokens is not None]
        if usage and usage[-1] != sum(counts):
            logger.warning("the server reports %d tokens in usage but sent %d token ids", usage[-1], sum(counts))
        return counts, tuple(token for chunk in self._chunks for token in chunk.token_ids or ())


def _text(choice: Mapping[str, Any]) -> str:
    """Output as streamed. What a reasoning model thinks (`reasoning`, formerly `reasoning_content`) is output too, and
    so is the call of a tool.
    """
    delta = choice.get("delta") or {}
    thought = delta.get("reasoning") or delta.get("reasoning_content")
    calls = [call.get("function") or {} for call in delta.get("tool_calls") or ()]
    called = [call.get(part) for call in calls for part in ("name", "arguments")]
    return "".join(part for part in (thought, delta.get("content"), *called, choice.get("text")) if part is not None)


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    count = usage.get(name)
    if count is not None and not isinstance(count, int):
        raise TypeError(name)
    return count


def error_message(body: Any) -> str:
    """The sentence in an error body: OpenAI's {"error": {"message": …}}, or whatever stands there instead."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    message = error.get("message", error) if isinstance(error, Mapping) else error
    return str(message)[:EXCERPT]
