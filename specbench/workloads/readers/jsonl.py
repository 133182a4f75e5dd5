"""specbench's own format: a JSON object per line with `messages` or `prompt` (fields: FIELDS)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.entries import filled, kind, shown, text
from specbench.workloads.reference import RULES, Reference

_Form = tuple[str, Callable[[Any], bool]]
"""What a value must be, in words and as a test."""

_OBJECT: _Form = ("an object", lambda value: isinstance(value, dict))

PASSED_ON: Mapping[str, _Form] = {
    "tools": ("a list of objects", lambda value: isinstance(value, list) and all(isinstance(v, dict) for v in value)),
    "tool_choice": ("a string or an object", lambda value: isinstance(value, str | dict)),
    "response_format": _OBJECT,
    "structured_outputs": _OBJECT,
    "chat_template_kwargs": _OBJECT,
    "reasoning_effort": ("a string", lambda value: isinstance(value, str)),
    "stop": (
        "a non-empty string or a list of them",
        lambda value: all(isinstance(v, str) and v for v in (value if isinstance(value, list) else [value])),
    ),
}
"""Fields that the server is sent as they stand: what an answer may look like, and what the template shall do."""

MAX_TOKENS = 2**31 - 1
"""More than any model's context, and few enough for every engine to count."""

FIELDS = ("id", "messages", "prompt", "max_tokens", "category", "reference", "score", "follow_ups", *PASSED_ON)
ROLES = ("system", "user", "assistant")


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    if unknown := [name for name in entry if name not in FIELDS]:
        raise BadEntry(f'unknown field "{unknown[0]}"', f"Use only {', '.join(FIELDS)}")
    if ("messages" in entry) == ("prompt" in entry):
        found = "has both" if "prompt" in entry else "has neither"
        raise BadEntry(f'a line needs either "messages" or "prompt"; this one {found}', "Give exactly one of them")
    return Prompt(
        id=text(entry, "id") or default_id,
        messages=_messages(entry["messages"]) if "messages" in entry else None,
        prompt=text(entry, "prompt"),
        max_tokens=limit(entry, "max_tokens"),
        category=text(entry, "category"),
        reference=_reference(entry),
        extra={name: passed_on(entry[name], name) for name in PASSED_ON if name in entry},
        follow_ups=_follow_ups(entry),
    )


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`."""
    reference = prompt.reference
    fields = {
        "id": prompt.id,
        "messages": None if prompt.messages is None else [dict(message) for message in prompt.messages],
        "prompt": prompt.prompt,
        "follow_ups": list(prompt.follow_ups) or None,
        "max_tokens": prompt.max_tokens,
        "category": prompt.category,
        "reference": None if reference is None else _one_or_all(reference.answers),
        "score": None if reference is None else reference.rule,
    }
    return {**{name: value for name, value in fields.items() if value is not None}, **prompt.extra}


def _follow_ups(entry: Mapping[str, Any]) -> tuple[str, ...]:
    value = entry.get("follow_ups", [])
    if not isinstance(value, list):
        raise BadEntry(f'"follow_ups" must be a list of strings; got {kind(value)}', "Put each in quotation marks")
    if value and "messages" not in entry:
        raise BadEntry('"follow_ups" need "messages" to follow', 'Write "messages" in the place of "prompt"')
    return tuple(filled(said, f"follow_ups[{i}]") for i, said in enumerate(value))


def _one_or_all(answers: tuple[str, ...]) -> str | list[str]:
    return answers[0] if len(answers) == 1 else list(answers)


def _messages(value: object) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list):
        raise BadEntry(
            f'"messages" must be a list of {{role, content}}; got {kind(value)}', 'Put plain text under "prompt"'
        )
    if not value:
        raise BadEntry('"messages" is empty', "Give at least one message from the user")
    messages = tuple(_message(message, f"messages[{index}]") for index, message in enumerate(value))
    if messages[-1]["role"] != "user":
        raise BadEntry(
            f"the last message must be from the user; it is from the {messages[-1]['role']}",
            "End with the question that the model shall answer",
        )
    return messages


def _message(value: object, place: str) -> Mapping[str, str]:
    if not isinstance(value, dict) or value.keys() != {"role", "content"}:
        got = f"fields {', '.join(map(str, value)) or 'none'}" if isinstance(value, dict) else kind(value)
        raise BadEntry(
            f"{place} must have exactly role and content; got {got}", 'Write {"role": "user", "content": "…"}'
        )
    if value["role"] not in ROLES:
        raise BadEntry(f"{place} has the role {json.dumps(value['role'])}", f"Use {', '.join(ROLES)}")
    return {"role": value["role"], "content": filled(value["content"], f"the content of {place}")}


def _reference(entry: Mapping[str, Any]) -> Reference | None:
    rule = entry.get("score")
    if rule is not None and rule not in RULES:
        raise BadEntry(f'"score" is {shown(rule)}', f"Use {', '.join(RULES)}")
    if "reference" not in entry:
        if rule is not None:
            raise BadEntry('"score" has no "reference" to go by', "Add the right answer")
        return None
    value = entry["reference"]
    answers = value if isinstance(value, list) else [value]
    if not answers:
        raise BadEntry('"reference" is empty', "Give the right answer, or a list of them")
    # A number is a right answer too, written as people would.
    written = [json.dumps(a) if isinstance(a, int | float) and not isinstance(a, bool) else a for a in answers]
    reference = Reference(tuple(filled(answer, '"reference"') for answer in written), rule)
    if rule is not None and (problem := reference.problem(rule)):
        raise BadEntry(problem, "Correct it, or choose another score")
    return reference


def passed_on(value: Any, field: str) -> Any:
    """A field of PASSED_ON, if it can be sent. Raises BadEntry."""
    form, holds = PASSED_ON[field]
    if not holds(value):
        raise BadEntry(f'"{field}" must be {form}; got {shown(value)}', "Correct it or leave it out")
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, TypeError, RecursionError):
        raise BadEntry(
            f'"{field}" holds NaN, Infinity or half of a surrogate pair, a date or too many levels: no request can',
            "Write another value",
        ) from None
    return value


def limit(entry: Mapping[str, Any], field: str) -> int | None:
    """A field that must be a limit of output tokens; None where the entry has none. Raises BadEntry."""
    value = entry.get(field)
    if value is None:
        return None
    # bool is an int in Python; nobody means 1 token by `true`.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_TOKENS:
        raise BadEntry(
            f'"{field}" must be a whole number from 1 to {MAX_TOKENS}; got {shown(value)}',
            "Correct it or leave it out",
        )
    return value
