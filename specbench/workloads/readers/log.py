"""Logs of requests and what was answered: `prompt`, `messages` or `request`, with a `response` or `completion`.

As a workload only what was asked counts; `specbench profile --logs` looks at the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.entries import identifier, kind, text
from specbench.workloads.readers.openai import asked


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    request = entry.get("request", entry)
    if not isinstance(request, dict):
        raise BadEntry(f'"request" must be an object; got {kind(request)}', "Write the request there")
    body = request.get("body") or request
    found = asked({name: value for name, value in body.items() if value is not None}, default_id)
    return Prompt(
        identifier(entry, "id", default_id),
        messages=found.messages,
        prompt=found.prompt,
        max_tokens=found.max_tokens,
        category=text(entry, "category"),
        extra=found.extra,
    )
