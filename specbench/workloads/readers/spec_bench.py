"""Spec-Bench (Xia et al., 2024), MT-Bench (Zheng et al., 2023), SPEED-Bench: `turns` of the user, all of them asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.chat import only_words, user
from specbench.workloads.readers.entries import filled, identifier, kind, text


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`."""
    turns = entry.get("turns")
    if not isinstance(turns, list) or not turns:
        got = "an empty list" if turns == [] else kind(turns)
        raise BadEntry(f'"turns" must be a list of what the user says; got {got}', "Correct it or remove the line")
    first, *rest = (filled(turn, f"turns[{i}]") for i, turn in enumerate(turns))
    return Prompt(
        identifier(entry, "question_id", default_id),
        messages=(user(first),),
        category=text(entry, "category"),
        follow_ups=tuple(rest),
    )


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`."""
    number = int(prompt.id) if prompt.id.isascii() and prompt.id.isdigit() and prompt.id[0] != "0" else None
    return {
        "question_id": prompt.id if number is None else number,
        **({} if prompt.category is None else {"category": prompt.category}),
        "turns": [only_words(prompt), *prompt.follow_ups],
    }
