"""From a file to its prompts, whatever its format."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from specbench.digest import file_sha256
from specbench.errors import SpecbenchError
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.readers import Problem, find_reader

MAX_NAME_BYTES = 100
"""Of a file's name without its ending: the files of measurements are called after it, with arm and batch size."""


def load_workload(path: Path, skip_bad_lines: bool | None = None, form: str | None = None) -> Workload:
    """Read and check every prompt of a workload file.

    skip_bad_lines: None where nobody can ask for it, and where it is no advice therefore
    form: a name in readers.FORMATS, found by the file's fields where it is None
    Raises SpecbenchError naming file and line at the first entry that is no prompt (with `skip_bad_lines` it goes to
    `skipped` instead), and where the file is missing, unreadable, of an unknown format, or left without a prompt.
    """
    _check_name(path)
    with _readable(path):
        sha256 = file_sha256(path)
    skipped: list[str] = []
    prompts = tuple(read_prompts(path, form, skip_bad_lines, skipped, distinct=True))
    if not prompts:
        raise SpecbenchError(
            f"{path} has no usable line: all {len(skipped)} were skipped, the first because: {skipped[0]}"
            if skipped
            else f'{path} has no prompts. Write one JSON object per line, for example {{"prompt": "Once upon a time"}}.'
        )
    return Workload(path.stem, path, prompts, sha256, tuple(skipped))


def read_prompts(
    path: Path, form: str | None, skip_bad_lines: bool | None, skipped: list[str], *, distinct: bool = False
) -> Iterator[Prompt]:
    """The prompts of a file as they are read, one in memory at a time; the rest as for `load_workload`.

    skipped: gets a sentence for each entry that is left out;  distinct: whether a second prompt of one id is refused
    """
    with _readable(path):
        entries = find_reader(path, form)(path)
        for line, entry in _distinct(entries) if distinct else entries:
            if isinstance(entry, Prompt):
                yield entry
            elif skip_bad_lines:
                skipped.append(f"{path}:{line}: {entry.what}.")
            else:
                advice = "" if skip_bad_lines is None else ", or pass --skip-bad-lines"
                raise SpecbenchError(f"{path}:{line}: {entry.what}. {entry.remedy}{advice}.")


def _distinct(entries: Iterable[tuple[int, Prompt | Problem]]) -> Iterator[tuple[int, Prompt | Problem]]:
    lines: dict[str, int] = {}
    for line, entry in entries:
        if isinstance(entry, Prompt):
            if entry.id in lines:
                what = f'the id "{entry.id}" is already that of line {lines[entry.id]}'
                entry = Problem(what, "Give each prompt its own")
            else:
                lines[entry.id] = line
        yield line, entry


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turns what keeps a file from being read into a SpecbenchError."""
    if path.is_dir():
        raise SpecbenchError(f"{path} is a directory. Give a workload file, for example {path / 'chat.jsonl'}.")
    try:
        yield
    except FileNotFoundError:
        raise SpecbenchError(f"no workload file {path}. specbench's own are in workloads/ of its checkout.") from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise SpecbenchError(f"{path} is not whole, or not packed by gzip ({error}). Fetch it again.") from error
    except OSError as error:
        raise SpecbenchError(f"cannot read {path} ({error.strerror or error}). Check its permissions.") from error


def _check_name(path: Path) -> None:
    try:
        length = len(path.stem.encode())
        str(path).encode()
    except UnicodeEncodeError:
        raise SpecbenchError(
            f"{str(path)!a}: the name is not UTF-8, and a run's files could not say it. Rename the file."
        ) from None
    if length > MAX_NAME_BYTES:
        raise SpecbenchError(
            f"{path}: the name has {length} bytes, and names of measurements begin with it. "
            f"Shorten it to {MAX_NAME_BYTES}."
        )
