"""A file's entries, one by one: JSON Lines, a JSON array, or Parquet; packed by gzip or not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from specbench.errors import SpecbenchError
from specbench.workloads.prompt import Prompt
from specbench.workloads.readers.base import BadEntry, Problem

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
PARQUET_ROWS = 256
"""In memory at a time: conversations are long."""

Entry = Mapping[str, Any]

_BOM = b"\xef\xbb\xbf"


def read_prompts(path: Path, prompt_of: Callable[[Entry, str], Prompt]) -> Iterator[tuple[int, Prompt | Problem]]:
    """See `Reader`. prompt_of: see `FormatModule`"""
    for number, entry in read_entries(path):
        try:
            yield number, entry if isinstance(entry, Problem) else prompt_of(entry, f"{path.stem}-{number}")
        except BadEntry as bad:
            yield number, bad.problem


def read_entries(path: Path) -> Iterator[tuple[int, Entry | Problem]]:
    """Each entry with its line, or its number where there are no lines. Blank lines are passed over."""
    if path.suffix.lower() == ".parquet":
        return _rows(path)
    return _elements(path) if _is_array(path) else _lines(path)


def open_lines(path: Path) -> IO[bytes]:
    """The file's bytes, unpacked where it is packed by gzip."""
    return cast("IO[bytes]", gzip.open(path, "rb")) if path.suffix.lower() == ".gz" else path.open("rb")


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A pyarrow.parquet.ParquetFile. Raises SpecbenchError where it is none, or broken, then or while it is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the file system, not of what is in the file
        reason = " ".join(str(error).split())[:200]
        raise SpecbenchError(f"{path}: no Parquet file that can be read ({reason}). Fetch it again.") from error


def _lines(path: Path) -> Iterator[tuple[int, Entry | Problem]]:
    with open_lines(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield number, _entry(_decoded(line))
                except BadEntry as bad:
                    yield number, bad.problem


def _is_array(path: Path) -> bool:
    """Whether a .json holds an array; many of that name hold JSON Lines."""
    if not path.name.lower().endswith((".json", ".json.gz")):
        return False
    with open_lines(path) as file:
        return file.read(64).removeprefix(_BOM).lstrip()[:1] == b"["


def _elements(path: Path) -> Iterator[tuple[int, Entry | Problem]]:
    import ijson

    with open_lines(path) as file:
        if file.read(len(_BOM)) != _BOM:
            file.seek(0)
        try:
            for number, element in enumerate(ijson.items(file, "item", use_float=True), 1):
                try:
                    yield number, _entry(element)
                except BadEntry as bad:
                    yield number, bad.problem
        except (ijson.JSONError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise SpecbenchError(f"{path}: no whole JSON array ({reason[:200]}). Fetch it again, or mend it.") from None


def _rows(path: Path) -> Iterator[tuple[int, Entry | Problem]]:
    with open_parquet(path) as file:
        number = 0
        for batch in file.iter_batches(PARQUET_ROWS):
            for row in batch.to_pylist():
                number += 1
                yield number, _entry(row)


def text(entry: Entry, field: str) -> str | None:
    """A field that must be a filled string; None where the entry has none. Raises BadEntry."""
    return filled(entry[field], f'"{field}"') if field in entry else None


def required(entry: Entry, field: str) -> str:
    """A field that must be there, and a filled string. Raises BadEntry."""
    found = text(entry, field)
    if found is None:
        raise BadEntry(f'"{field}" is missing', "Add it or remove the line")
    return found


def identifier(entry: Entry, field: str, default: str) -> str:
    """A field that is a string or a whole number; the default where the entry has none. Raises BadEntry."""
    value = entry.get(field, default)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else filled(value, f'"{field}"')


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


def shown(value: object) -> str:
    """The beginning of a value as JSON has it, for a sentence; Parquet has values that JSON has not."""
    try:
        return json.dumps(value, default=str)[:40]
    except RecursionError:
        return "something of very many levels"


def _decoded(line: bytes) -> object:
    try:
        # -sig: editors on Windows put a byte order mark before the first line.
        decoded = line.rstrip().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadEntry(f"not UTF-8 at byte {error.start + 1} of the line", "Save the file as UTF-8") from None
    try:
        return json.loads(decoded)
    except json.JSONDecodeError as error:
        raise BadEntry(
            f"not valid JSON at column {error.colno} ({error.msg})", "Write one whole JSON object per line"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadEntry(f"not readable JSON ({error})", "Write one whole JSON object per line") from None


def _entry(value: object) -> Entry:
    if not isinstance(value, dict):
        raise BadEntry(
            f"a line must be a JSON object; got {kind(value)}",
            'Write {"prompt": "…"} or {"messages": […]} on each line',
        )
    # Exporters write null for what they leave out.
    return {name: field for name, field in value.items() if field is not None}
