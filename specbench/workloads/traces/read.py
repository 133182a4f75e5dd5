"""From a trace's file to Traffic: some thousands of rows in memory at a time, and a few numbers per request."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.errors import SpecbenchError
from specbench.workloads.readers.entries import kind as kind_of
from specbench.workloads.traces.formats import FORMATS, TraceFormat, find_format
from specbench.workloads.traces.rows import BLOCKS, FORMS, Kind, first_row, read_rows
from specbench.workloads.traces.sessions import SessionNumbers, block_sessions, first_blocks
from specbench.workloads.traces.units import UNITS, Unit, are_dates, check_unit, dates, numbers
from specbench.workloads.traffic import Traffic

MOST_TOKENS = 2**31 - 1
_NEVER = 1e19
"""More than the nanoseconds from 1970 to now, and few enough to take differences of."""

_Kind = TypeVar("_Kind", bound=np.generic)
Stamps = NDArray[np.float64]
"""Times of arrival as a file has them: in its unit, or seconds since 1970 where it has dates."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Traffic, and how it was read. unit: that of the file's times, None of dates

    left_out: rows without a prompt or an output token (failed requests)
    delayed:  rows whose time is the one of the turn before and a delay; the time that the answer took is not in it
    """

    traffic: Traffic
    format: str
    unit: Unit | None
    left_out: int = 0
    delayed: int = 0


def read_traffic(path: Path, form: str | None = None, time_unit: str | None = None) -> Traffic:
    """What `read_trace` reads, alone."""
    return read_trace(path, form, time_unit).traffic


def read_trace(path: Path, form: str | None = None, time_unit: str | None = None) -> Trace:
    """Read a trace, or the requests of a run's open loop (its directory).

    form: a key of FORMATS, found by the file's fields where it is None
    time_unit: a key of UNITS, the format's where it is None; then the arrivals must be possible in it
    Raises SpecbenchError naming file and line for what cannot be read.
    """
    if path.is_dir():
        from specbench.workloads.traces.run import run_traffic

        return Trace(run_traffic(path), "run", "s")
    with _readable(path):
        kind, fields = first_row(path)
        name = find_format(path, fields, form)
        read = _Rows(path, FORMATS[name])
        for rows in read_rows(path, kind, FORMATS[name].fields):
            read.take(rows)
        return read.trace(name, time_unit)


def read_arrivals(path: Path) -> Stamps:
    """Seconds from the first arrival to each, in order, of any trace, and of files that hold nothing but times.

    A `timestamp` of JSON whose format is not to be told is in milliseconds, as Mooncake's; one of a table in seconds.
    """
    with _readable(path):
        kind, fields = first_row(path)
        column, unit = _column(kind, fields)
        if kind != "numbers" and column not in fields:
            raise SpecbenchError(f"{path}:1: no arrival time (expected a column TIMESTAMP). {FORMS}.")
        clock = _Clock(path)
        read = [clock.stamps(rows[column]) for rows in read_rows(path, kind, [column])]
        stamps = np.sort(_joined([np.empty(0), *read]))
    offsets: Stamps = (stamps - stamps[:1]) * (1.0 if clock.dated else UNITS[unit].seconds)
    if len(offsets) < 2 or offsets[-1] == 0:
        raise SpecbenchError(f"{path}: a trace needs two arrivals or more, at different times. {FORMS}.")
    if unit == "ms" and not clock.dated:
        check_unit(path, stamps, unit, "Write the arrivals in seconds, one number a line")
    return offsets


def _column(kind: Kind, fields: frozenset[str]) -> tuple[str, Unit]:
    fitting = [form for form in FORMATS.values() if form.needed <= fields]
    fitting = [form for form in fitting if form.telling & fields] or fitting
    if fitting:
        return fitting[0].arrival, fitting[0].unit
    return "timestamp", "ms" if kind == "objects" else "s"


class _Clock:
    """Reads a file's column of arrivals: all of it numbers, or all of it dates, as its first value says."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: Callable[[pd.Series[Any]], Stamps] | None = None

    @property
    def dated(self) -> bool:
        return self._read is dates

    def stamps(self, column: pd.Series[Any]) -> Stamps:
        """Raises SpecbenchError at the first row without a time."""
        if self._read is None and len(column):
            self._read = dates if are_dates(column.iloc[0]) else numbers
        found = np.empty(0) if self._read is None else self._read(column)
        if (missing := np.flatnonzero(~(np.abs(found) < _NEVER))).size:
            row = missing[0]
            written = "there is no timestamp" if pd.isna(column.iloc[row]) else repr(column.iloc[row])
            raise SpecbenchError(f"{self._path}:{column.index[row]}: no arrival time ({written}). {FORMS}.")
        return found


class _Rows:
    """What was read so far, in pieces."""

    def __init__(self, path: Path, form: TraceFormat) -> None:
        self._path, self._form, self._clock = path, form, _Clock(path)
        self._sessions = SessionNumbers()
        self._last: dict[object, float] = {}
        self._stamps: list[Stamps] = []
        self._prompt: list[NDArray[np.int32]] = []
        self._output: list[NDArray[np.int32]] = []
        self._session: list[NDArray[np.int64]] = []
        self._blocks: list[NDArray[np.int64]] = []
        self._left_out = self._delayed = 0

    def take(self, rows: pd.DataFrame) -> None:
        form = self._form
        self._check_sessions(rows)
        if form.delay is not None and form.delay in rows:
            rows = self._with_delays(rows, form.delay)
        stamps = self._clock.stamps(rows[form.arrival])
        prompt, output = (self._tokens(rows[name]) for name in (form.prompt, form.output))
        kept = (prompt > 0) & (output > 0)
        self._left_out += int((~kept).sum())
        self._stamps.append(stamps[kept])
        self._prompt.append(prompt[kept])
        self._output.append(output[kept])
        if form.session and form.session in rows:
            self._session.append(np.array(self._sessions.of(rows[form.session][kept]), dtype=np.int64))
        if form.blocks and form.blocks in rows:
            self._blocks.append(first_blocks(rows[form.blocks][kept], BLOCKS))

    def trace(self, name: str, time_unit: str | None) -> Trace:
        unit = self._unit(time_unit)
        stamps = _joined(self._stamps)
        if not stamps.size:
            raise SpecbenchError(f"{self._path}: no request in it has both prompt and output tokens.")
        order = np.argsort(stamps, kind="stable")
        stamps = stamps[order]
        if time_unit is None and not self._clock.dated:
            units = ", ".join(UNITS)
            check_unit(self._path, stamps, unit, f"Say what they are: --time-unit ({units}), even if it is {unit}")
        scale = 1.0 if self._clock.dated else UNITS[unit].seconds
        session = None
        if self._sessions.named:
            session = _joined(self._session)
        elif self._blocks and (blocks := _joined(self._blocks)).max() >= 0:
            session = block_sessions(blocks)
        traffic = Traffic(
            arrival=(stamps - stamps[0]) * scale,
            prompt_tokens=_joined(self._prompt)[order],
            output_tokens=_joined(self._output)[order],
            session=None if session is None else session[order],
        )
        return Trace(traffic, name, None if self._clock.dated else unit, self._left_out, self._delayed)

    def _unit(self, asked: str | None) -> Unit:
        if asked is None:
            return self._form.unit
        if asked not in UNITS:
            raise SpecbenchError(f"--time-unit: {asked!r} is no unit. Choose from: {', '.join(UNITS)}.")
        return asked

    def _with_delays(self, rows: pd.DataFrame, delay: str) -> pd.DataFrame:
        """Rows without a time get that of their session's row before, and their delay, in the unit of both."""
        form, arrivals = self._form, []
        waits = numbers(rows[delay])
        sessions = rows[form.session] if form.session and form.session in rows else [None] * len(rows)
        for session, arrival, wait in zip(sessions, rows[form.arrival], waits, strict=True):
            if pd.isna(arrival) and session in self._last and not np.isnan(wait):
                arrival = self._last[session] + wait
                self._delayed += 1
            if isinstance(arrival, int | float):
                self._last[session] = float(arrival)
            arrivals.append(arrival)
        return rows.assign(**{form.arrival: pd.Series(arrivals, index=rows.index, dtype=object)})

    def _check_sessions(self, rows: pd.DataFrame) -> None:
        if self._form.session in rows:
            ids = rows[self._form.session]
            if (wrong := np.flatnonzero(ids.map(lambda id: isinstance(id, list | dict)))).size:
                line, id = ids.index[wrong[0]], ids.iloc[wrong[0]]
                raise SpecbenchError(
                    f"{self._path}:{line}: {ids.name} must be a string or a number; got {kind_of(id)}."
                )

    def _tokens(self, column: pd.Series[Any]) -> NDArray[np.int32]:
        found = numbers(column)
        if (wrong := np.flatnonzero(~((found >= 0) & (found <= MOST_TOKENS)))).size:
            row = wrong[0]
            raise SpecbenchError(
                f"{self._path}:{column.index[row]}: {column.name} must be a number of tokens; got {column.iloc[row]!r}."
            )
        return np.rint(found).astype(np.int32)


def _joined(pieces: list[NDArray[_Kind]]) -> NDArray[_Kind]:
    """The pieces as one array, and none of them any more: together they would take twice the memory."""
    whole = np.concatenate(pieces)
    pieces.clear()
    return whole


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpecbenchError(f"cannot read the trace {path}: {error.strerror or error}.") from error
    except (EOFError, zlib.error) as error:
        raise SpecbenchError(f"{path} is not whole, or not packed by gzip ({error}). Fetch it again.") from error
