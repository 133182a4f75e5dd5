"""GSM8K (Cobbe et al., 2021): `question`, and an `answer` whose working ends in `#### ` and the number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry
from specbench.workloads.readers.chat import user
from specbench.workloads.readers.entries import required
from specbench.workloads.reference import Reference, last_number


def prompt_of(entry: Mapping[str, Any], default_id: str) -> Prompt:
    """See `FormatModule`. The question is the user's message, as it stands."""
    question, answer = required(entry, "question"), required(entry, "answer")
    if (number := last_number(answer)) is None:
        raise BadEntry('"answer" ends in no number', "End it in #### and the number")
    return Prompt(default_id, messages=(user(question),), reference=Reference((str(number),), "number"))
