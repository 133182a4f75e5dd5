"""What differs between two records of settings, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """before, after: as text, hashes by their first digits; `none` where a side has no value"""

    name: str
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name}: {self.before} → {self.after}"


def differing(before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]) -> list[Difference]:
    """Each of the names whose values differ, in the order of `before`."""
    order = [name for name in dict.fromkeys([*before, *after]) if name in names]
    return [
        Difference(name, _short(before.get(name)), _short(after.get(name)))
        for name in order
        if before.get(name) != after.get(name)
    ]


def differences(before: Mapping[str, Any], after: Mapping[str, Any], names: Collection[str]) -> list[str]:
    """The same as `name: before → after`."""
    return list(map(str, differing(before, after, names)))


def _short(value: Any) -> str:
    """Hashes by their first digits."""
    text = "none" if value is None else str(value)
    return f"{text[:10]}…" if len(text) >= 40 and all(c in "0123456789abcdef" for c in text) else text
