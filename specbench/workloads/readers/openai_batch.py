"""OpenAI's batch input: `custom_id` and the `body` of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.entries import identifier
from specbench.workloads.readers.openai import asked


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    return asked(entry.get("body"), '"body"', identifier(entry, "custom_id", default_id))


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`. The body names no model: which one answers is for who sends it."""
    url, said = "/v1/completions", dict[str, Any](prompt=prompt.prompt)
    if prompt.messages is not None:
        url, said = "/v1/chat/completions", {"messages": [dict(message) for message in prompt.messages]}
    length = {} if prompt.max_tokens is None else {"max_tokens": prompt.max_tokens}
    return {"custom_id": prompt.id, "method": "POST", "url": url, "body": {**said, **length, **prompt.extra}}
