"""SGLang's custom data: `conversations` or `conversation` of {content or value}, user and assistant by turns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.chat import only_words, question
from specbench.workloads.readers.entries import identifier


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    field = "conversations" if "conversations" in entry else "conversation"
    return Prompt(identifier(entry, "id", default_id), messages=question(entry.get(field), field))


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`. SGLang asks the first message, and takes from the second how long the answer shall be."""
    return {"id": prompt.id, "conversation": [{"content": only_words(prompt)}, {"content": ""}]}
