"""Recorded arrivals: when requests came to a real deployment, read from the formats that traces are published in."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from specbench.errors import SpecbenchError

FORMS = "JSON Lines with timestamp (ms), a CSV with a TIMESTAMP column, or one number of seconds a line"


def read_arrival_trace(path: Path) -> NDArray[np.float64]:
    """Seconds since the first arrival, in order.

    JSON Lines with `timestamp` in milliseconds (Mooncake's traces), CSV with a column TIMESTAMP that holds dates
    (Azure's) or seconds, or plain text with one number of seconds per line. Raises SpecbenchError naming file and line.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            lines = [(number, line.strip()) for number, line in enumerate(file, start=1) if line.strip()]
    except OSError as error:
        raise SpecbenchError(f"cannot read the trace of arrivals {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SpecbenchError(f"{path}: a trace of arrivals is text in UTF-8, and this file is not.") from error
    times = np.sort(np.fromiter(_times(path, lines), dtype=np.float64))
    with np.errstate(over="ignore", invalid="ignore"):
        offsets: NDArray[np.float64] = times - times[:1]
    if len(offsets) < 2 or not np.isfinite(offsets).all() or offsets[-1] == 0:
        raise SpecbenchError(
            f"{path}: a trace needs two arrivals or more, at different times, all finite. Known forms: {FORMS}."
        )
    return offsets


def _times(path: Path, lines: Sequence[tuple[int, str]]) -> Iterator[float]:
    """The form of the first line is the file's."""
    reader: Callable[[str], float] | None = None
    for number, line in lines:
        try:
            if reader is None:
                reader = _milliseconds if line.startswith("{") else float if _is_number(line) else _column(line)
                if not (line.startswith("{") or _is_number(line)):
                    continue  # the header of a table
            yield reader(line)
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError, csv.Error) as error:
            raise SpecbenchError(f"{path}:{number}: no arrival time ({error}). Known forms: {FORMS}.") from None


def _column(header: str) -> Callable[[str], float]:
    """A reader of the column TIMESTAMP in a CSV's rows."""
    names = [name.strip().lower() for name in next(csv.reader([header]))]
    if "timestamp" not in names:
        raise ValueError("expected a column TIMESTAMP")
    place = names.index("timestamp")
    return lambda row: _date_or_seconds(next(csv.reader([row]))[place])


def _milliseconds(line: str) -> float:
    return float(json.loads(line)["timestamp"]) / 1e3


def _date_or_seconds(value: str) -> float:
    if _is_number(value):
        return float(value)
    # Azure's dates have seven decimals, of which datetime takes six; the rest is a tenth of a microsecond.
    whole, _, fraction = value.strip().partition(".")
    return datetime.fromisoformat(whole).timestamp() + float(f"0.{fraction.rstrip('Z') or 0}")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
