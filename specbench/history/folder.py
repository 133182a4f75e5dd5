"""A folder of runs: which there are, a summary of each, and what is wrong with some."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from specbench.errors import SpecbenchError
from specbench.history.stamp import summary_path
from specbench.store.atomic import replacing

_DEEPEST = 3
"""Folders below the one that was named: runs of one gate lie together in a folder of their own."""


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run, or the report of one, in a folder.

    name: its directory from the folder on, which tells it from the others
    summary: the Parquet file of `summary_file`
    measurements, requests: its tables; None before it has ended, and of a report
    cell_files: measurements that are not in the tables yet
    """

    name: str
    path: Path
    summary: Path
    measurements: Path | None
    requests: Path | None
    cell_files: tuple[Path, ...]

    @classmethod
    def at(cls, path: Path, folder: Path) -> StoredRun:
        """As it stands. Raises FileNotFoundError where neither a manifest nor a report says what is in it."""
        return cls(
            name=path.relative_to(folder).as_posix(),
            path=path,
            summary=summary_path(path),
            measurements=_existing(path / "measurements.parquet"),
            requests=_existing(path / "requests.parquet"),
            cell_files=tuple(sorted((path / "cells").glob("*.parquet"))),
        )

    @property
    def files(self) -> tuple[Path, ...]:
        """All that a query may read of it."""
        return (self.summary, *filter(None, (self.measurements, self.requests)), *self.cell_files)


@dataclass(frozen=True, slots=True)
class Folder:
    """The runs that can be read, by name, and a sentence on each that cannot."""

    path: Path
    runs: tuple[StoredRun, ...]
    problems: tuple[str, ...]


@contextmanager
def opened(path: Path, note: Callable[[str], None]) -> Iterator[Folder]:
    """The runs in a folder and in folders below, each with a summary that is up to date.

    Summaries are kept in the runs; where a run cannot be written to, for as long as the folder is open.
    Raises SpecbenchError where there is no run that can be read. note: is told what takes a while
    """
    if not path.is_dir():
        raise SpecbenchError(f"{path} is not a directory. Name the folder that runs are in: --runs DIR.")
    runs: list[StoredRun] = []
    missing: list[StoredRun] = []
    problems: list[str] = []
    for place in _places(path):
        try:
            run = StoredRun.at(place, path)
        except FileNotFoundError:
            problems.append(
                f"{place}: holds measurements whose manifest.json is gone, so what they are of is not known."
            )
            continue
        if (unreadable := _why_unreadable(run.summary)).exists():
            problems.append(unreadable.read_text(encoding="utf-8"))
            continue
        runs.append(run)
        if not run.summary.exists():
            missing.append(run)
    with ExitStack() as stack:
        if missing:
            note(f"{len(missing)} of {len(runs)} runs have no summary that is up to date; analysing them.")
            made = _summarize(missing, stack, problems)
            runs = [made.get(run.name, run) for run in runs if run not in missing or run.name in made]
        if not runs:
            reasons = f": {' '.join(problems)}" if problems else "."
            raise SpecbenchError(f"{path} holds no run of specbench sweep that can be read{reasons}")
        yield Folder(path, tuple(runs), tuple(problems))


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None


def _places(folder: Path) -> Iterator[Path]:
    """Directories that hold a run, what is left of one, or its report; in the order of their names."""
    for root, below, files in os.walk(folder, followlinks=True):
        here = Path(root)
        if _KEEPS.intersection(files):
            below.clear()
            yield here
        elif len(here.relative_to(folder).parts) == _DEEPEST:
            below.clear()
        else:
            below[:] = sorted(name for name in below if not name.startswith("."))


_KEEPS = {"manifest.json", "report.json", "measurements.parquet"}


def _why_unreadable(summary: Path) -> Path:
    """What stands in a summary's place where analysis has failed, and would fail again: the reason, in a sentence."""
    return summary.with_suffix(".error")


def _summarize(runs: list[StoredRun], stack: ExitStack, problems: list[str]) -> dict[str, StoredRun]:
    """By name, those that could be summed up."""
    from specbench.history.summary_file import build, remove_stale

    made: dict[str, StoredRun] = {}
    elsewhere: Path | None = None
    for run in runs:
        summary = run.summary
        if not os.access(run.path, os.W_OK):
            elsewhere = elsewhere or Path(stack.enter_context(tempfile.TemporaryDirectory()))
            summary = elsewhere / f"{len(made)}.parquet"
        try:
            build(run.path, summary)
            made[run.name] = replace(run, summary=summary)
            written = summary
        except OSError as error:
            problems.append(f"{run.path}: {error.strerror or error}.")
            continue
        except (SpecbenchError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            problems.append(_sentence(run.path, error))
            written = _why_unreadable(summary)
            with replacing(written) as partial:
                partial.write_text(problems[-1], encoding="utf-8")
        remove_stale(run.path, written)
    return made


def _sentence(run: Path, error: Exception) -> str:
    if isinstance(error, SpecbenchError):
        return str(error) if str(run) in str(error) else f"{run}: {error}"
    return f"{run}: of a layout that this specbench does not read ({error!r})."
