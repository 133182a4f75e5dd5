"""What a reader of a workload format is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from specbench.workloads.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an entry is no prompt.

    what:   half a sentence, without file and line: `"messages" must be a list of {role, content}; got a string`
    remedy: an imperative without full stop: `Put plain text under "prompt"`
    """

    what: str
    remedy: str


class Reader(Protocol):
    """Reads one format, entry by entry, so that a file of gigabytes needs no more memory than its prompts."""

    def __call__(self, path: Path) -> Iterator[tuple[int, Prompt | Problem]]:
        """Each entry's line (1-based; the row where a format has no lines) with the prompt in it, or its problem."""
