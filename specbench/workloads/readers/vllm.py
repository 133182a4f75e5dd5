"""vLLM's custom data: `prompt`, which it puts into the chat template as the user's message, and `output_tokens`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.chat import only_words, user
from specbench.workloads.readers.entries import required
from specbench.workloads.readers.jsonl import limit


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    return Prompt(default_id, messages=(user(required(entry, "prompt")),), max_tokens=limit(entry, "output_tokens"))


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`."""
    length = {} if prompt.max_tokens is None else {"output_tokens": prompt.max_tokens}
    return {"prompt": only_words(prompt), **length}
