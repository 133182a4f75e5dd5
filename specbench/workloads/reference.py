"""What a right answer to a prompt is, where its file says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, get_args

Rule = Literal["exact", "contains", "number", "regex", "code"]
RULES: tuple[Rule, ...] = get_args(Rule)

_NUMBER = re.compile(r"(?:(?<![\w.])[-−])?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)")
_FINAL = "####"
"""What GSM8K's answers put before the number, and models that were shown them too."""


@dataclass(frozen=True, slots=True)
class Reference:
    """answers: an output that fits any of these is right; with rule `code`, tests that are run after the output's code
    rule: how an output is held against them; None where the file leaves that to whoever scores
    """

    answers: tuple[str, ...]
    rule: Rule | None = None

    def problem(self, rule: Rule) -> str | None:
        """Why the answers cannot be scored by a rule, as half a sentence; None where they can."""
        for answer in self.answers:
            if rule == "number" and last_number(answer) is None:
                return f"the reference {answer[:40]!r} holds no number"
            if rule == "regex":
                try:
                    re.compile(answer)
                except re.error as error:
                    return f"the reference {answer[:40]!r} is no regular expression ({error})"
        return None


def last_number(text: str) -> Decimal | None:
    """The number after the last `####`, else the last one of the text; thousands may be set apart by commas."""
    _, mark, final = text.rpartition(_FINAL)
    if mark and (found := _NUMBER.search(final)):
        return _value(found[0])
    numbers = _NUMBER.findall(text)
    return _value(numbers[-1]) if numbers else None


def _value(written: str) -> Decimal:
    return Decimal(written.replace(",", "").replace("−", "-"))
