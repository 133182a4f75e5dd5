"""The runs that are compared, with what their servers said of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from specbench.comparison.from_run import load_snapshot, snapshot
from specbench.comparison.snapshot import Snapshot
from specbench.differences import Difference, differing
from specbench.errors import SpecbenchError
from specbench.store.run import RunStore

Settings = Mapping[str, Mapping[str, Any]]
"""What servers resolved, flat: by arm (`ngram-g4`), by name."""


@dataclass(frozen=True, slots=True)
class Side:
    """letter: A for the reference, B and on for the others, in the order given
    settings: read back from its servers; empty for a baseline file, which does not keep them
    """

    letter: str
    path: Path
    snapshot: Snapshot
    settings: Settings = field(default_factory=dict)

    def is_same_run(self, other: Side) -> bool:
        return self.path.resolve() == other.path.resolve()


def load_sides(paths: Sequence[Path]) -> list[Side]:
    """Of runs' directories and baseline files. Raises SpecbenchError for anything else, and for fewer than two."""
    if not 2 <= len(paths) <= len(ascii_uppercase):
        raise SpecbenchError(f"give two to {len(ascii_uppercase)} runs: the reference first; got {len(paths)}.")
    return [_load(letter, path) for letter, path in zip(ascii_uppercase, paths, strict=False)]


def _load(letter: str, path: Path) -> Side:
    if not path.is_dir():
        return Side(letter, path, load_snapshot(path))
    store = RunStore.open(path)
    return Side(letter, path, snapshot(store), read_back(store.launches()))


def read_back(launches: Mapping[str, Mapping[str, Any]]) -> Settings:
    """What every launch of an arm resolved alike: ports, capacities and times that differ by launch are no setting."""
    by_arm: dict[str, list[dict[str, Any]]] = {}
    for launch, record in launches.items():
        by_arm.setdefault(re.sub(r"-r\d+$", "", launch), []).append(dict(_flat(record)))
    return {
        arm: {name: value for name, value in first.items() if all(other.get(name) == value for other in rest)}
        for arm, (first, *rest) in by_arm.items()
    }


def settings_changed(a: Settings, b: Settings) -> list[Difference]:
    """Of the arms that both have, each change once, with the arms that it is of where it is not of all."""
    arms = [arm for arm in a if arm in b]
    found: dict[Difference, list[str]] = {}
    for arm in arms:
        for change in differing(a[arm], b[arm], a[arm].keys() & b[arm].keys()):
            found.setdefault(change, []).append(arm)
    return [replace(change, name=_named(change.name, of, arms)) for change, of in found.items()]


def _named(setting: str, of: Sequence[str], arms: Sequence[str]) -> str:
    return f"read back: {setting}" if len(of) == len(arms) else f"read back: {setting} ({', '.join(of)})"


def _flat(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Settings as text; versions are told by the manifest."""
    yield from _leaves("", record.get("raw") or {})
    if (capacity := record.get("kv_capacity_tokens")) is not None:
        yield "kv_capacity_tokens", str(capacity)


def _leaves(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, Mapping):
            yield from _leaves(f"{prefix}{name}.", item)
        elif "version" not in f"{prefix}{name}":
            yield f"{prefix}{name}", str(item)
