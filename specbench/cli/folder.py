"""Opening a folder of runs for a command: what is wrong with some of them goes to stderr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.history.folder import Folder


@contextmanager
def open_folder(path: Path) -> Iterator[Folder]:
    from specbench.history.folder import opened
    from specbench.paths import expand_home

    with opened(expand_home(path), warn) as folder:
        for problem in folder.problems:
            warn(f"left out: {problem}")
        yield folder


def notes_on_copies(copies: Sequence[tuple[str, str]]) -> list[str]:
    """A sentence on each run that is there twice; said on stderr, too."""
    notes = [f"{run}: the same run as {stands}, which stands for it." for run, stands in copies]
    for note in notes:
        warn(f"left out: {note}")
    return notes


def warn(text: str) -> None:
    typer.echo(f"specbench: {text}", err=True)
