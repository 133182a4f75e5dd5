"""Markdown that fits where it is posted: long tables and lists are cut, and say so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

COMMENT_BYTES = 65_000
"""GitHub takes 65,536 characters in a comment on a pull request and 1 MiB in a job's summary. Bytes are never fewer
than characters, and some room is left for a line of the user's own.
"""

_CUT = "\n\n*The rest is left out here for length.*\n"
_STEPS = (None, 400, 200, 100, 50, 25, 10, 5, 2, 0)


def fitted(render: Callable[[int | None], str], limit: int = COMMENT_BYTES) -> str:
    """The longest of the texts that `render` gives for falling numbers of rows that fits; None is for all rows.

    One that fits with no number is cut at the end of a line, and says so.
    """
    text = ""
    for most in _STEPS:
        text = render(most)
        if len(text.encode()) <= limit:
            return text
    room = max(0, limit - len(_CUT.encode()))
    lines = text.encode()[:room].decode(errors="ignore").splitlines()[:-1]
    while (open_ones := _open(lines)) and len("\n".join([*lines, *open_ones]).encode()) > room:
        lines.pop()
    return "\n".join([*lines, *open_ones]) + _CUT


def _open(lines: Sequence[str]) -> list[str]:
    """What ends the blocks that are still open: a fence of code, and details around it."""
    fence, details = "", 0
    for line in lines:
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if ticks == line and len(ticks) >= len(fence) else fence
        elif len(ticks) >= 3:
            fence = ticks
        else:
            details += line.count("<details>") - line.count("</details>")
    return [*([fence] if fence else []), *[""] * bool(details), *["</details>"] * details]


def cut(lines: Sequence[str], most: int | None, where: str) -> list[str]:
    """The first of the lines. where: what holds the others, as in `cells.csv`"""
    if most is None or len(lines) <= most:
        return list(lines)
    return [*lines[:most], "", f"*{len(lines) - most} more are left out here for length: all are in {where}.*"]
