"""What differs between two records of settings, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def differences(before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """`name: before → after` for each that differs, in the order of `before`."""
    order = [name for name in dict.fromkeys([*before, *after]) if name in names]
    return [
        f"{name}: {_short(before.get(name))} → {_short(after.get(name))}"
        for name in order
        if before.get(name) != after.get(name)
    ]


def _short(value: Any) -> str:
    """Hashes by their first digits."""
    text = "none" if value is None else str(value)
    return f"{text[:10]}…" if len(text) >= 40 and all(c in "0123456789abcdef" for c in text) else text
