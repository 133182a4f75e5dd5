"""specbench's own format: a JSON object per line with `messages` or `prompt` (fields: FIELDS)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import Problem

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

FIELDS = ("id", "messages", "prompt", "max_tokens", "category", *PASSED_ON)
ROLES = ("system", "user", "assistant")


class _Bad(Exception):
    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem(what, remedy)


def read(path: Path) -> Iterator[tuple[int, Prompt | Problem]]:
    """See `Reader`. Blank lines are passed over; a prompt without id gets `<file stem>-<line>`."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield number, _prompt(_object(line), default_id=f"{path.stem}-{number}")
            except _Bad as bad:
                yield number, bad.problem


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        # -sig: editors on Windows put a byte order mark before the first line.
        text = line.rstrip().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Bad(f"not UTF-8 at byte {error.start + 1} of the line", "Save the file as UTF-8") from None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _Bad(
            f"not valid JSON at column {error.colno} ({error.msg})", "Write one whole JSON object per line"
        ) from None
    except (ValueError, RecursionError) as error:
        raise _Bad(f"not readable JSON ({error})", "Write one whole JSON object per line") from None
    if not isinstance(value, dict):
        raise _Bad(
            f"a line must be a JSON object; got {_kind(value)}",
            'Write {"prompt": "…"} or {"messages": […]} on each line',
        )
    # Exporters write null for what they leave out.
    return {name: field for name, field in value.items() if field is not None}


def _prompt(entry: Mapping[str, Any], default_id: str) -> Prompt:
    if unknown := [name for name in entry if name not in FIELDS]:
        raise _Bad(f'unknown field "{unknown[0]}"', f"Use only {', '.join(FIELDS)}")
    if ("messages" in entry) == ("prompt" in entry):
        found = "has both" if "prompt" in entry else "has neither"
        raise _Bad(f'a line needs either "messages" or "prompt"; this one {found}', "Give exactly one of them")
    return Prompt(
        id=_text(entry, "id") or default_id,
        messages=_messages(entry["messages"]) if "messages" in entry else None,
        prompt=_text(entry, "prompt"),
        max_tokens=_max_tokens(entry["max_tokens"]) if "max_tokens" in entry else None,
        category=_text(entry, "category"),
        extra={name: _passed_on(entry[name], name) for name in PASSED_ON if name in entry},
    )


def _messages(value: object) -> tuple[Mapping[str, str], ...]:
    if not isinstance(value, list):
        raise _Bad(
            f'"messages" must be a list of {{role, content}}; got {_kind(value)}', 'Put plain text under "prompt"'
        )
    if not value:
        raise _Bad('"messages" is empty', "Give at least one message from the user")
    messages = tuple(_message(message, f"messages[{index}]") for index, message in enumerate(value))
    if messages[-1]["role"] != "user":
        raise _Bad(
            f"the last message must be from the user; it is from the {messages[-1]['role']}",
            "End with the question that the model shall answer",
        )
    return messages


def _message(value: object, place: str) -> Mapping[str, str]:
    if not isinstance(value, dict) or value.keys() != {"role", "content"}:
        got = f"fields {', '.join(map(str, value)) or 'none'}" if isinstance(value, dict) else _kind(value)
        raise _Bad(f"{place} must have exactly role and content; got {got}", 'Write {"role": "user", "content": "…"}')
    if value["role"] not in ROLES:
        raise _Bad(f"{place} has the role {json.dumps(value['role'])}", f"Use {', '.join(ROLES)}")
    return {"role": value["role"], "content": _filled(value["content"], f"the content of {place}")}


def _text(entry: Mapping[str, Any], field: str) -> str | None:
    return _filled(entry[field], f'"{field}"') if field in entry else None


def _filled(value: object, place: str) -> str:
    if not isinstance(value, str):
        raise _Bad(f"{place} must be a string; got {_kind(value)}", "Write it in quotation marks")
    if not value.strip():
        raise _Bad(f"{place} is empty", "Fill it or remove the line")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _Bad(
            f"{place} holds half of a surrogate pair (\\ud800 to \\udfff), which is no character",
            "Write the character itself",
        ) from None
    return value


def _passed_on(value: Any, field: str) -> Any:
    form, holds = PASSED_ON[field]
    if not holds(value):
        raise _Bad(f'"{field}" must be {form}; got {json.dumps(value)[:40]}', "Correct it or leave it out")
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        raise _Bad(
            f'"{field}" holds NaN, Infinity or half of a surrogate pair, which no request can', "Write another value"
        ) from None
    return value


def _max_tokens(value: object) -> int:
    # bool is an int in Python; nobody means 1 token by `true`.
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_TOKENS:
        raise _Bad(
            f'"max_tokens" must be a whole number from 1 to {MAX_TOKENS}; got {json.dumps(value)[:40]}',
            "Correct it or leave it out",
        )
    return value


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"
