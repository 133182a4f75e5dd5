"""GuideLLM's data: `prompt` (of several turns `prompt_0`, `prompt_1`, …), `system_prompt`, `output_tokens_count`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.chat import first_words, user
from specbench.workloads.readers.entries import required, text
from specbench.workloads.readers.jsonl import limit


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`. The length of the first turn's answer is that of all."""
    if "prompt_0" not in entry:
        turns, counted = [required(entry, "prompt")], "output_tokens_count"
    else:
        last = next(i for i in range(len(entry) + 1) if f"prompt_{i}" not in entry)
        turns, counted = [required(entry, f"prompt_{i}") for i in range(last)], "output_tokens_count_0"
    system = text(entry, "system_prompt")
    told = () if system is None else ({"role": "system", "content": system},)
    return Prompt(
        default_id,
        messages=(*told, user(turns[0])),
        max_tokens=limit(entry, counted),
        follow_ups=tuple(turns[1:]),
    )


def entry_of(prompt: Prompt) -> Mapping[str, Any]:
    """See `WritableModule`."""
    system, said = first_words(prompt)
    told = {} if system is None else {"system_prompt": system}
    if not prompt.follow_ups:
        length = {} if prompt.max_tokens is None else {"output_tokens_count": prompt.max_tokens}
        return {**told, "prompt": said, **length}
    if prompt.messages is None:
        raise BadEntry("it goes on from plain text, which has no turns", "Convert it to specbench")
    turns = {f"prompt_{i}": turn for i, turn in enumerate((said, *prompt.follow_ups))}
    lengths = {f"output_tokens_count_{i}": prompt.max_tokens for i in range(len(turns))}
    return {**told, **turns, **(lengths if prompt.max_tokens is not None else {})}
