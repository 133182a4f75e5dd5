"""GSM8K (Cobbe et al., 2021): `question`, and an `answer` whose working ends in `#### ` and the number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import Problem
from specbench.workloads.readers.entries import BadEntry, read_entries, required
from specbench.workloads.reference import Reference, last_number


def read(path: Path) -> Iterator[tuple[int, Prompt | Problem]]:
    """See `Reader`. The question is the user's message, as it stands."""
    return read_entries(path, _prompt)


def _prompt(entry: Mapping[str, Any], default_id: str) -> Prompt:
    question, answer = required(entry, "question"), required(entry, "answer")
    if (number := last_number(answer)) is None:
        raise BadEntry('"answer" ends in no number', "End it in #### and the number")
    return Prompt(
        default_id, messages=({"role": "user", "content": question},), reference=Reference((str(number),), "number")
    )
