"""A figure as somebody wrote it: its value, and the range that its last digit leaves open."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import product

_NUMBER = r"(?=\.?\d)(?:\d+(?:,\d{3})+|\d+)?\.?\d*(?:e[+-]?\d{1,2})?"
_WRITTEN = re.compile(
    rf"(?P<sign>[-+−]?)\s*\$?(?P<low>{_NUMBER})(?:\s*(?:-|–|to)\s*\$?(?P<high>{_NUMBER}))?\s*(?P<unit>[kKMBT%x×]?)"
)
_UNITS = {"k": 3, "K": 3, "M": 6, "B": 9, "T": 12, "%": -2, "x": 0, "×": 0, "": 0}
_MOST_DIGITS = 30
_LEAST, _MOST = 1e-12, 1e24
_MOST_POINTS = 64
_SLACK = 1e-9


@dataclass(frozen=True, slots=True)
class Figure:
    """A number known to lie in [low, high]; `value` is the one to show.

    whole: only the whole numbers of the range are meant;  text: as it was written, None where it was computed
    """

    value: float
    low: float
    high: float
    whole: bool = False
    text: str | None = field(default=None, compare=False)

    @classmethod
    def exact(cls, value: float) -> Figure:
        return cls(value, value, value)

    def below(self, other: Figure) -> bool:
        """Whether no value of this range reaches the other range."""
        return self.high < other.low - _SLACK * abs(other.low)

    def points(self) -> tuple[float, ...]:
        """Where a function of it is evaluated: every whole number of a short range, or the ends and the value."""
        if self.whole and self.high - self.low < _MOST_POINTS:
            return tuple(range(int(self.low), int(self.high) + 1))
        return tuple(dict.fromkeys((self.low, self.value, self.high)))

    def span(self) -> str:
        """The whole range, or one number where its ends show alike."""
        low, high = shown(self.low), shown(self.high)
        return low if low == high else f"{low} to {high}"

    def __str__(self) -> str:
        return self.text or shown(self.value)


def read_figure(written: object, rounded: bool = True) -> Figure:
    """`0.19`, `405e9`, `10B`, `-53%`, `1,700` or a range such as `4-6`, with half a unit of the last digit either way.

    rounded: False where the figure is a count or a setting, which nobody rounds. An exponent or a letter says nothing
    of how many digits are meant: such a figure is taken to be right within 5 %. The ends of a range stand as they are.
    Raises ValueError for another text.
    """
    text = str(written).strip()
    match = _WRITTEN.fullmatch(text)
    if not match or len(text) > _MOST_DIGITS:
        raise ValueError("expected a number such as 0.19, 405e9, 10B or 81%, or a range such as 4-8")
    if match["high"] is not None:
        ends = [_scaled(match[end], match) for end in ("low", "high")]
        if match["sign"] or ends[0] > ends[1]:
            raise ValueError("expected a range from less to more, such as 4-8")
        low, high = map(float, ends)
        whole = not rounded and low.is_integer() and high.is_integer()
        return Figure((low + high) // 2 if whole else (low + high) / 2, low, high, whole, text)
    number = _scaled(match["low"], match)
    value = float(-number if match["sign"] in ("-", "−") else number)
    if value and not _LEAST <= abs(value) <= _MOST:
        raise ValueError(f"expected a number between {_LEAST:g} and {_MOST:g}")
    half = float(Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)) if rounded else 0.0
    if "e" in text.lower() or match["unit"] in tuple("kKMBT"):
        half = min(half, 0.05 * abs(value))
    return Figure(value, value - half, value + half, whole=not rounded and value.is_integer(), text=text)


def spread(function: Callable[..., float], *figures: Figure) -> Figure:
    """A function of figures as a figure: its least and most over their ranges, for a function monotone in each."""
    corners = [function(*point) for point in product(*(figure.points() for figure in figures))]
    value = function(*(figure.value for figure in figures))
    return Figure(value, min(corners), max(corners))


def shown(number: float) -> str:
    """Four digits; thousands with commas."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def _scaled(number: str, match: re.Match[str]) -> Decimal:
    return Decimal(number.replace(",", "")).scaleb(_UNITS[match["unit"]])
