"""A request to replay: the prompt, how to sample, and the body that asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One prompt to send. Exactly one of `messages` (chat) and `prompt` (text or token ids) is set.

    index:  position in the cell's request order (0-based)
    follows: index of the request that it is the next turn of: `messages` then are what is said after its answer
    top_k:  0 keeps the whole vocabulary;  seed: None leaves it to the server
    extra:  further fields of the body, sent as they are (`ignore_eos`, `chat_template_kwargs`, …); they win
    """

    index: int
    prompt_id: str
    max_tokens: int
    messages: tuple[Mapping[str, Any], ...] | None = None
    prompt: str | tuple[int, ...] | None = None
    category: str | None = None
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    follows: int | None = None

    @property
    def path(self) -> str:
        return "/v1/completions" if self.messages is None else "/v1/chat/completions"

    def body(self, model: str) -> dict[str, Any]:
        """The JSON of a streamed request. Options at their neutral value are left out: some engines refuse them."""
        prompt = {"prompt": self.prompt} if self.messages is None else {"messages": self.messages}
        return {
            "model": model,
            **prompt,
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            **({"top_k": self.top_k} if self.top_k else {}),
            **({} if self.seed is None else {"seed": self.seed}),
            "stream": True,
            **self.extra,
        }
