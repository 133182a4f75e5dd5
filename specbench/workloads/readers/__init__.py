"""The workload formats that specbench reads: one file and one line of FORMATS each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from specbench.errors import SpecbenchError
from specbench.workloads.readers.base import Problem, Reader
from specbench.workloads.readers.entries import open_lines

__all__ = ["FORMATS", "Format", "Problem", "Reader", "find_reader"]


@dataclass(frozen=True, slots=True)
class Format:
    """How a format is known by its file, and where its reader is.

    reader:   "module:function", imported when the first such file is read
    suffixes: endings of its files' names
    fields:   what the first line must have, if the ending alone does not tell
    """

    reader: str
    suffixes: tuple[str, ...]
    fields: frozenset[str] = frozenset()


_LINES = (".jsonl", ".jsonl.gz")

FORMATS: Mapping[str, Format] = {
    "specbench": Format("specbench.workloads.readers.jsonl:read", _LINES),
    "gsm8k": Format("specbench.workloads.readers.gsm8k:read", _LINES, frozenset({"question", "answer"})),
    "humaneval": Format(
        "specbench.workloads.readers.humaneval:read", _LINES, frozenset({"prompt", "entry_point", "test"})
    ),
}


def find_reader(path: Path) -> Reader:
    """The reader of the format with the most fields on the file's first line. Raises SpecbenchError where none fits."""
    by_name = [f for f in FORMATS.values() if path.name.lower().endswith(f.suffixes)]
    present = _first_fields(path) if any(f.fields for f in by_name) else frozenset()
    fitting = [f for f in by_name if f.fields <= present]
    if not fitting:
        known = ", ".join(f"{name} ({' '.join(f.suffixes)})" for name, f in FORMATS.items())
        raise SpecbenchError(f"{path}: not a workload format that specbench knows. It reads: {known}.")
    module, function = max(fitting, key=lambda f: len(f.fields)).reader.split(":")
    return cast(Reader, getattr(import_module(module), function))


def _first_fields(path: Path) -> frozenset[str]:
    with open_lines(path) as file:
        try:
            first = json.loads(next((line for line in file if line.strip()), b""))
        except ValueError:
            return frozenset()
    return frozenset(first) if isinstance(first, dict) else frozenset()
