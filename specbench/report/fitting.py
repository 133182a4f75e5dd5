"""Markdown that fits where it is posted: long tables and lists are cut, and say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

COMMENT_BYTES = 65_000
"""GitHub takes 65,536 characters in a comment on a pull request and 1 MiB in a job's summary. Bytes are never fewer
than characters, and some room is left for a line of the user's own.
"""

_STEPS = (None, 400, 200, 100, 50, 25, 10, 5, 2, 0)


def fitted(render: Callable[[int | None], str], limit: int = COMMENT_BYTES) -> str:
    """The longest of the texts that `render` gives for falling numbers of rows that fits; None is for all rows."""
    text = ""
    for most in _STEPS:
        text = render(most)
        if len(text.encode()) <= limit:
            return text
    return text.encode()[:limit].decode(errors="ignore")


def cut(lines: Sequence[str], most: int | None, where: str) -> list[str]:
    """The first of the lines. where: what holds the others, as in `cells.csv`"""
    if most is None or len(lines) <= most:
        return list(lines)
    return [*lines[:most], "", f"*{len(lines) - most} more are left out here for length: all are in {where}.*"]
