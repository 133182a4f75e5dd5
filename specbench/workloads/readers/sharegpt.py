"""ShareGPT: `conversations` of {from: human or gpt, value}. The last question is asked, what came before it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.chat import question, user
from specbench.workloads.readers.entries import identifier

_NAMES = {"system": "system", "user": "human", "assistant": "gpt"}


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`. Files repeat ids where they split a conversation: those are for the loader to refuse."""
    return Prompt(identifier(entry, "id", default_id), messages=question(entry.get("conversations"), "conversations"))


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`. The answer is empty: engines' benchmarks want two messages, and a length of their own."""
    messages = prompt.messages or (user(prompt.prompt or ""),)
    said = [{"from": _NAMES[message["role"]], "value": message["content"]} for message in messages]
    return {"id": prompt.id, "conversations": [*said, {"from": "gpt", "value": ""}]}
