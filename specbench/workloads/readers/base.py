"""What a workload format is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from specbench.workloads.prompt import Prompt


@dataclass(frozen=True, slots=True)
class Problem:
    """Why an entry is no prompt, or a prompt no entry.

    what:   half a sentence, without file and line: `"messages" must be a list of {role, content}; got a string`
    remedy: an imperative without full stop: `Put plain text under "prompt"`
    """

    what: str
    remedy: str


class BadEntry(Exception):
    """An entry that is no prompt. what, remedy: as in `Problem`"""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem(what, remedy)


class FormatModule(Protocol):
    """A file of this package: one format."""

    def prompt_of(self, entry: Mapping[str, Any], default_id: str) -> Prompt:
        """The prompt in an entry of a file, which has no fields of None. Raises BadEntry.

        default_id: of a prompt whose entry has none (`<file stem>-<line>`)
        """


class WritableModule(FormatModule, Protocol):
    """A format that prompts can be converted to."""

    def entry_of(self, prompt: Prompt) -> Mapping[str, Any]:
        """The entry that holds as much of a prompt as the format can. Raises BadEntry where that is not its text."""


class Reader(Protocol):
    """Reads a file of one format, entry by entry, so that gigabytes need no more memory than the prompts in them."""

    def __call__(self, path: Path) -> Iterator[tuple[int, Prompt | Problem]]:
        """Each entry's line (1-based; its number where a file has no lines) with the prompt in it, or its problem."""
