"""Times of arrival in seconds, and whether the unit that they were taken for can be theirs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbench.errors import SpecbenchError

Unit = Literal["s", "ms", "us", "ns"]


@dataclass(frozen=True, slots=True)
class TimeUnit:
    name: str
    seconds: float


UNITS: dict[Unit, TimeUnit] = {
    "s": TimeUnit("seconds", 1.0),
    "ms": TimeUnit("milliseconds", 1e-3),
    "us": TimeUnit("microseconds", 1e-6),
    "ns": TimeUnit("nanoseconds", 1e-9),
}

FASTEST, SLOWEST, LONGEST = 1_000.0, 1 / 300, 200.0
"""Requests per second above and below which, and days beyond which, a trace was more likely read in a wrong unit: a
unit is wrong by a thousand at least, and published traces (0.3 to 50 requests per second, up to 121 days) lie between.
"""

FASTEST_WITH_FRACTIONS = 100.0
"""The same for milliseconds that have decimals, as seconds mostly do and milliseconds rarely."""

_EPOCH_BEGINS, _EPOCH_ENDS = 1.42e9, 2.2e9
"""Seconds since 1970 at 2015 and in 2039: what a clock's own time looks like."""

_DAY = 86_400.0
_1970 = pd.Timestamp(0, tz="UTC")


def are_dates(first: object) -> bool:
    """Whether a column that begins with this value holds dates and not numbers."""
    return bool(np.isnan(numbers(pd.Series([first], dtype=object)))[0])


def numbers(column: pd.Series[Any]) -> NDArray[np.float64]:
    """A column's numbers, written as such or as text; NaN where there is none."""
    return pd.to_numeric(_written(column), errors="coerce").to_numpy(np.float64, na_value=np.nan)


def dates(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Seconds since 1970 of ISO 8601 dates, UTC where they name no zone; NaN where there is none."""
    parsed = pd.to_datetime(_written(column), errors="coerce", utc=True, format="ISO8601")
    return np.asarray((parsed - _1970) / pd.Timedelta(seconds=1), dtype=np.float64)


def _written(column: pd.Series[Any]) -> pd.Series[Any]:
    """Without what JSON has besides numbers and text."""
    return column.where(column.map(lambda v: isinstance(v, int | float | str))) if column.dtype == object else column


def check_unit(path: Path, stamps: NDArray[np.float64], unit: Unit, way_out: str) -> None:
    """Raise SpecbenchError where sorted stamps, taken for `unit`, make a clock or a rate that nobody has.

    way_out: an imperative without full stop that ends the sentence
    """
    span = float(stamps[-1] - stamps[0]) * UNITS[unit].seconds
    rate = (len(stamps) - 1) / span if span else 0.0
    if clock := _clock(float(stamps[0]), unit):
        found = f"look like {UNITS[clock].name} since 1970"
    elif span > LONGEST * _DAY:
        found = f"would span {span / _DAY:,.0f} days"
    elif rate > FASTEST or (rate > FASTEST_WITH_FRACTIONS and unit == "ms" and bool((stamps % 1 != 0).mean() > 0.5)):
        found = f"would be {rate:,.0f} requests per second" + (" at fractions of them" if rate <= FASTEST else "")
    elif 0 < rate < SLOWEST:
        found = f"would be one request every {1 / rate:,.0f} s"
    else:
        return
    raise SpecbenchError(f"{path}: its times are taken for {UNITS[unit].name}, and {found}. {way_out}.")


def _clock(first: float, unit: Unit) -> Unit | None:
    """The unit in which a stamp is a time of our days, where `unit` is not."""
    fitting: list[Unit] = [u for u, is_ in UNITS.items() if _EPOCH_BEGINS <= first * is_.seconds <= _EPOCH_ENDS]
    return fitting[0] if fitting and unit not in fitting else None
