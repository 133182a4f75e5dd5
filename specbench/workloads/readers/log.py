"""Logs of requests and what was answered: `prompt`, `messages` or `request`, with a `response` or `completion`.

As a workload only what was asked counts; `specbench profile --logs` looks at the answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.entries import identifier, text
from specbench.workloads.readers.openai import asked


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    request = entry.get("request", entry)
    if isinstance(request, dict):
        request = request.get("body") or request
    found = asked(request, '"request"', identifier(entry, "id", default_id))
    return replace(found, category=text(entry, "category"))
