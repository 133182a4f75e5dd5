"""From a file to a Workload, whatever its format."""

from __future__ import annotations

import gzip
from pathlib import Path

from specbench.digest import file_sha256
from specbench.errors import SpecbenchError
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.readers import Problem, find_reader

MAX_NAME_BYTES = 100
"""Of a file's name without its ending: the files of measurements are called after it, with arm and batch size."""


def load_workload(path: Path, skip_bad_lines: bool | None = None) -> Workload:
    """Read and check every prompt of a workload file.

    skip_bad_lines: None where nobody can ask for it, and where it is no advice therefore
    Raises SpecbenchError naming file and line at the first entry that is no prompt (with `skip_bad_lines` it goes to
    `skipped` instead), and where the file is missing, unreadable, of an unknown format, or left without a prompt.
    """
    _check_name(path)
    if path.is_dir():
        raise SpecbenchError(f"{path} is a directory. Give a workload file, for example {path / 'chat.jsonl'}.")
    try:
        return _load(path, skip_bad_lines)
    except FileNotFoundError:
        raise SpecbenchError(f"no workload file {path}. specbench's own are in workloads/ of its checkout.") from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise SpecbenchError(f"{path} is not whole, or not packed by gzip ({error}). Fetch it again.") from error
    except OSError as error:
        raise SpecbenchError(f"cannot read {path} ({error.strerror}). Check its permissions.") from error


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


def _load(path: Path, skip_bad_lines: bool | None) -> Workload:
    sha256 = file_sha256(path)
    prompts: list[Prompt] = []
    skipped: list[str] = []
    lines: dict[str, int] = {}
    for line, entry in find_reader(path)(path):
        if isinstance(entry, Prompt) and entry.id in lines:
            entry = Problem(
                f'the id "{entry.id}" is already that of line {lines[entry.id]}', "Give each prompt its own"
            )
        if isinstance(entry, Prompt):
            lines[entry.id] = line
            prompts.append(entry)
        elif skip_bad_lines:
            skipped.append(f"{path}:{line}: {entry.what}.")
        else:
            advice = "" if skip_bad_lines is None else ", or pass --skip-bad-lines"
            raise SpecbenchError(f"{path}:{line}: {entry.what}. {entry.remedy}{advice}.")
    if not prompts:
        raise SpecbenchError(
            f"{path} has no usable line: all {len(skipped)} were skipped, the first because: {skipped[0]}"
            if skipped
            else f'{path} has no prompts. Write one JSON object per line, for example {{"prompt": "Once upon a time"}}.'
        )
    return Workload(path.stem, path, tuple(prompts), sha256, tuple(skipped))
