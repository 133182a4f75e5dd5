"""Text from outside as it may stand within a line of GitHub-flavoured Markdown."""

from __future__ import annotations

import re

# Brackets are plain text unless a parenthesis follows, underscores unless at the edge of a word.
_MARKUP = re.compile(r"[\\`*~|]|(?<=\])\(|(?<!\w)_|_(?!\w)")


def inline(text: str) -> str:
    """Names, ids, logs and errors must not end a table's cell, become markup, or call people by name."""
    entities = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace("@", "&#64;")
    return _MARKUP.sub(r"\\\g<0>", entities)
