"""What is asked of the model: one prompt, and a file of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench.workloads.reference import Reference


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request of a workload, or a conversation. Exactly one of `messages` and `prompt` is set.

    messages:   a chat as {"role", "content"} in order, the last one from the user; the server applies its template
    prompt:     plain text that the model goes on from
    max_tokens: this prompt's own limit; None for the run's
    category:   a name to break results down by; None where the file has none
    reference:  what a right answer is; None where the file does not say. Never sent to the server
    extra:      further fields of the request, handed on to the server as they are: tools, a grammar, template options
    follow_ups: what the user goes on to say after the answer to `messages`, each after the answer to the one before
    """

    id: str
    messages: tuple[Mapping[str, str], ...] | None = None
    prompt: str | None = None
    max_tokens: int | None = None
    category: str | None = None
    reference: Reference | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    follow_ups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workload:
    """The prompts of one file, in its order.

    name:    the file's name without its ending
    sha256:  of the file's bytes, in hex: what a run's fingerprint and comparisons go by
    skipped: one sentence with file and line per entry that was left out; empty unless bad lines were to be skipped
    """

    name: str
    path: Path
    prompts: tuple[Prompt, ...]
    sha256: str
    skipped: tuple[str, ...] = ()
