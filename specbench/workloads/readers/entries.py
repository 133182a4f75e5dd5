"""JSON Lines, entry by entry: what every reader of such a format shares."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, cast

from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import Problem


class BadEntry(Exception):
    """An entry that is no prompt. what, remedy: as in `Problem`"""

    def __init__(self, what: str, remedy: str) -> None:
        self.problem = Problem(what, remedy)


def read_entries(
    path: Path, prompt_of: Callable[[Mapping[str, Any], str], Prompt]
) -> Iterator[tuple[int, Prompt | Problem]]:
    """See `Reader`. Blank lines are passed over.

    prompt_of: gets an entry and the id that its prompt has where the entry has none (`<file stem>-<line>`); raises
        BadEntry
    """
    with open_lines(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                yield number, prompt_of(_object(line), f"{path.stem}-{number}")
            except BadEntry as bad:
                yield number, bad.problem


def open_lines(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where it is packed by gzip."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def text(entry: Mapping[str, Any], field: str) -> str | None:
    """A field that must be a filled string; None where the entry has none. Raises BadEntry."""
    return filled(entry[field], f'"{field}"') if field in entry else None


def required(entry: Mapping[str, Any], field: str) -> str:
    """A field that must be there, and a filled string. Raises BadEntry."""
    found = text(entry, field)
    if found is None:
        raise BadEntry(f'"{field}" is missing', "Add it or remove the line")
    return found


def filled(value: object, place: str) -> str:
    """The value, if it is a string with something in it that is text. Raises BadEntry naming its place."""
    if not isinstance(value, str):
        raise BadEntry(f"{place} must be a string; got {kind(value)}", "Write it in quotation marks")
    if not value.strip():
        raise BadEntry(f"{place} is empty", "Fill it or remove the line")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadEntry(
            f"{place} holds half of a surrogate pair (\\ud800 to \\udfff), which is no character",
            "Write the character itself",
        ) from None
    return value


def kind(value: object) -> str:
    """What a value is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def _object(line: bytes) -> Mapping[str, Any]:
    try:
        # -sig: editors on Windows put a byte order mark before the first line.
        decoded = line.rstrip().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadEntry(f"not UTF-8 at byte {error.start + 1} of the line", "Save the file as UTF-8") from None
    try:
        value = json.loads(decoded)
    except json.JSONDecodeError as error:
        raise BadEntry(
            f"not valid JSON at column {error.colno} ({error.msg})", "Write one whole JSON object per line"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadEntry(f"not readable JSON ({error})", "Write one whole JSON object per line") from None
    if not isinstance(value, dict):
        raise BadEntry(
            f"a line must be a JSON object; got {kind(value)}",
            'Write {"prompt": "…"} or {"messages": […]} on each line',
        )
    # Exporters write null for what they leave out.
    return {name: field for name, field in value.items() if field is not None}
