"""Bodies of answers, whole and in chunks, in OpenAI's shapes with vLLM's additions (token ids, per-request metrics)."""

from __future__ import annotations

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specbench.wire.requests import ChatRequest, CompletionRequest, GenerationBody
from specbench.wire.service import Delta, TokenLogprob

Json = dict[str, Any]


class Answer(ABC):
    """The answer to one request. `chunk` counts tokens as they pass, so chunks must be made in order."""

    id_prefix: str
    object: str
    chunk_object: str

    def __init__(self, body: GenerationBody, model: str, prompt_token_ids: tuple[int, ...]) -> None:
        self._body = body
        self._prompt_token_ids = prompt_token_ids
        self._head: Json = {"id": f"{self.id_prefix}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}
        self._completion_tokens = 0
        self._started = False

    @property
    def ends_with_usage(self) -> bool:
        """Whether the client asked for a `usage_chunk`."""
        return self._body.stream_options.include_usage

    def chunk(self, delta: Delta) -> Json:
        """One streamed event. Its usage, where asked for, counts the tokens up to and including this delta."""
        self._completion_tokens += len(delta.token_ids)
        body = {**self._head, "object": self.chunk_object, "choices": [self._chunk_choice(delta)]}
        if self._body.return_token_ids:
            body["choices"][0]["token_ids"] = list(delta.token_ids)
            if not self._started:
                self._put_prompt_token_ids(body)
        if self._body.stream_options.continuous_usage_stats:
            body["usage"] = self._usage()
        self._started = True
        return body

    def usage_chunk(self, metrics: Mapping[str, Any] | None) -> Json:
        """The event after the last delta: usage and per-request metrics, no choices."""
        body = {**self._head, "object": self.chunk_object, "choices": [], "usage": self._usage()}
        return body if metrics is None else {**body, "metrics": metrics}

    def whole(self, deltas: Sequence[Delta], metrics: Mapping[str, Any] | None) -> Json:
        """The answer that is not streamed."""
        token_ids = tuple(token for delta in deltas for token in delta.token_ids)
        logprobs = [entry for delta in deltas for entry in delta.logprobs or ()]
        joined = Delta(
            text="".join(delta.text for delta in deltas),
            token_ids=token_ids,
            logprobs=tuple(logprobs) if any(delta.logprobs is not None for delta in deltas) else None,
            finish_reason=deltas[-1].finish_reason if deltas else None,
        )
        self._completion_tokens = len(token_ids)
        body = {**self._head, "object": self.object, "choices": [self._choice(joined)], "usage": self._usage()}
        if self._body.return_token_ids:
            body["choices"][0]["token_ids"] = list(token_ids)
            self._put_prompt_token_ids(body)
        return body if metrics is None else {**body, "metrics": metrics}

    def _usage(self) -> Json:
        prompt = len(self._prompt_token_ids)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": self._completion_tokens,
            "total_tokens": prompt + self._completion_tokens,
        }

    def _token(self, token_id: int, text: str) -> str:
        # Different tokens can have the same text; under this option they stay apart.
        return f"token_id:{token_id}" if self._body.return_tokens_as_token_ids else text

    @abstractmethod
    def _chunk_choice(self, delta: Delta) -> Json: ...

    @abstractmethod
    def _choice(self, whole: Delta) -> Json: ...

    @abstractmethod
    def _put_prompt_token_ids(self, body: Json) -> None: ...


class CompletionAnswer(Answer):
    """Answer of /v1/completions."""

    id_prefix = "cmpl"
    object = chunk_object = "text_completion"

    def __init__(self, body: CompletionRequest, model: str, prompt_token_ids: tuple[int, ...]) -> None:
        super().__init__(body, model, prompt_token_ids)
        self._text_offset = 0

    def _choice(self, whole: Delta) -> Json:
        return {
            "index": 0,
            "text": whole.text,
            "logprobs": None if whole.logprobs is None else self._logprobs(whole.logprobs),
            "finish_reason": whole.finish_reason,
        }

    def _chunk_choice(self, delta: Delta) -> Json:
        return self._choice(delta)

    def _put_prompt_token_ids(self, body: Json) -> None:
        body["choices"][0]["prompt_token_ids"] = list(self._prompt_token_ids)

    def _logprobs(self, entries: Iterable[TokenLogprob]) -> Json:
        body: Json = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for entry in entries:
            body["tokens"].append(self._token(entry.token_id, entry.token))
            body["token_logprobs"].append(entry.logprob)
            body["top_logprobs"].append({self._token(id_, text): value for id_, text, value in entry.top})
            body["text_offset"].append(self._text_offset)
            self._text_offset += len(entry.token)
        return body


class ChatAnswer(Answer):
    """Answer of /v1/chat/completions."""

    id_prefix = "chatcmpl"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def _choice(self, whole: Delta) -> Json:
        return self._with_message("message", {"role": "assistant", "content": whole.text}, whole)

    def _chunk_choice(self, delta: Delta) -> Json:
        # The role comes with the first tokens: an empty chunk before them looks like a first token to naive clients.
        role = {} if self._started else {"role": "assistant"}
        return self._with_message("delta", {**role, "content": delta.text}, delta)

    def _with_message(self, name: str, message: Json, delta: Delta) -> Json:
        return {
            "index": 0,
            name: message,
            "logprobs": None if delta.logprobs is None else {"content": [self._logprob(e) for e in delta.logprobs]},
            "finish_reason": delta.finish_reason,
        }

    def _put_prompt_token_ids(self, body: Json) -> None:
        body["prompt_token_ids"] = list(self._prompt_token_ids)

    def _logprob(self, entry: TokenLogprob) -> Json:
        return {
            **self._alternative(entry.token_id, entry.token, entry.logprob),
            "top_logprobs": [self._alternative(*alternative) for alternative in entry.top],
        }

    def _alternative(self, token_id: int, text: str, logprob: float) -> Json:
        return {"token": self._token(token_id, text), "logprob": logprob, "bytes": list(text.encode())}


def answer_to(
    body: CompletionRequest | ChatRequest, model: str, prompt_token_ids: tuple[int, ...]
) -> CompletionAnswer | ChatAnswer:
    """The answer that fits a request's endpoint."""
    if isinstance(body, CompletionRequest):
        return CompletionAnswer(body, model, prompt_token_ids)
    return ChatAnswer(body, model, prompt_token_ids)


def error_body(message: str, status: int, param: str | None = None) -> Json:
    """OpenAI's error shape; `code` is the HTTP status, as in vLLM."""
    kind = "invalid_request_error" if status < 500 else "internal_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}
