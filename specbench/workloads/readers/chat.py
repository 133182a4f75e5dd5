"""Conversations as others write them: other names for roles and fields, answers recorded with the questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.entries import filled, kind, shown

Message = Mapping[str, str]

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "bing": "assistant",
    "bard": "assistant",
    "model": "assistant",
}
"""What roles are called (OpenAI, ShareGPT and its like), and what they are called here."""


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def question(value: object, field: str) -> tuple[Message, ...]:
    """A recorded conversation up to the last thing that the user said; what was answered before stays as it was.

    value: a list of {role or from, content or value}; without roles user and assistant take turns
    An answer before the first question is left out: templates begin with the user. Raises BadEntry.
    """
    if not isinstance(value, list):
        raise BadEntry(f'"{field}" must be a list of messages; got {kind(value)}', "Correct it or remove the line")
    messages = [_message(message, f"{field}[{i}]", i) for i, message in enumerate(value)]
    asked = [i for i, message in enumerate(messages) if message["role"] == "user"]
    if not asked:
        raise BadEntry(f'"{field}" holds nothing that the user said', "Remove the line")
    kept = [m for m in messages[: asked[0]] if m["role"] == "system"] + messages[asked[0] : asked[-1] + 1]
    for message in kept:
        filled(message["content"], f"a message of the {message['role']}")
    return tuple(kept)


def first_words(prompt: Prompt) -> tuple[str | None, str]:
    """A prompt as a system message, if it has one, and a text of the user. Raises BadEntry where it is more."""
    match prompt.messages:
        case None:
            return None, prompt.prompt or ""
        case ({"role": "user"} as said,):
            return None, said["content"]
        case ({"role": "system"} as told, {"role": "user"} as said):
            return told["content"], said["content"]
    raise BadEntry("it is a chat with recorded answers, which this format has no place for", "Convert it to specbench")


def only_words(prompt: Prompt) -> str:
    """A prompt that is a text of the user alone. Raises BadEntry."""
    system, said = first_words(prompt)
    if system is not None:
        raise BadEntry("it has a system message, which this format has no place for", "Convert it to openai-batch")
    return said


def _message(value: object, place: str, index: int) -> Message:
    if not isinstance(value, dict):
        raise BadEntry(f"{place} must be an object with role and content; got {kind(value)}", "Remove the line")
    role = value.get("role") or value.get("from") or ("user", "assistant")[index % 2]
    if not isinstance(role, str) or role not in ROLES:
        raise BadEntry(f"{place} has the role {shown(role)}, which is not played here", "Remove the line")
    return {
        "role": ROLES[role],
        "content": _content(value.get("value") if value.get("content") is None else value["content"], place),
    }


def _content(value: Any, place: str) -> str:
    """Text, or parts that are text, joined as vLLM does for templates that take a string."""
    if isinstance(value, str) or value is None:
        return value or ""
    if isinstance(value, Sequence) and all(isinstance(p, dict) and isinstance(p.get("text"), str) for p in value):
        return "\n".join(part["text"] for part in value)
    raise BadEntry(f"{place} holds something other than text", "Remove the line: only text is asked here")
