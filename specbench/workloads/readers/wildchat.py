"""WildChat (Zhao et al., 2024) and LMSYS-Chat-1M (Zheng et al., 2024): recorded conversations, by language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.chat import question
from specbench.workloads.readers.entries import identifier, text


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    field = "conversation_hash" if "conversation_hash" in entry else "conversation_id"
    return Prompt(
        identifier(entry, field, default_id),
        messages=question(entry.get("conversation"), "conversation"),
        category=text(entry, "language"),
    )
