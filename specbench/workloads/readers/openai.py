"""Bodies of OpenAI's chat and completion requests, one a line. Model and sampling are the run's to say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.chat import question
from specbench.workloads.readers.entries import kind, required, text
from specbench.workloads.readers.jsonl import PASSED_ON, limit, passed_on


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    return asked(entry, "the entry", text(entry, "id") or default_id)


def asked(body: object, place: str, id: str) -> Prompt:
    """The prompt in a request's body, without an answer that was begun. Raises BadEntry naming its place."""
    if not isinstance(body, dict):
        raise BadEntry(f"{place} must be an object; got {kind(body)}", "Write the request there")
    body = {name: value for name, value in body.items() if value is not None}
    messages = question(body["messages"], "messages") if "messages" in body else None
    return Prompt(
        id,
        messages=messages,
        prompt=required(body, "prompt") if messages is None else None,
        max_tokens=next((limit(body, f) for f in ("max_completion_tokens", "max_tokens") if f in body), None),
        extra={name: passed_on(body[name], name) for name in PASSED_ON if name in body},
    )
