"""A written figure stands for every number that rounds to it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.claims.figure import Figure, read_figure, shown, spread


@pytest.mark.parametrize(
    ("written", "low", "value", "high"),
    [
        ("0.19", 0.185, 0.19, 0.195),
        ("3.10", 3.095, 3.10, 3.105),
        ("38", 37.5, 38, 38.5),
        ("-53%", -0.535, -0.53, -0.525),
        ("−53 %", -0.535, -0.53, -0.525),
        ("1,700", 1699.5, 1700, 1700.5),
        ("$0.19", 0.185, 0.19, 0.195),
        ("3.6x", 3.55, 3.6, 3.65),
        ("405e9", 404.5e9, 405e9, 405.5e9),
        ("405B", 404.5e9, 405e9, 405.5e9),
        ("1e10", 0.95e10, 1e10, 1.05e10),
        ("4-6", 4, 5, 6),
        ("2.2–3.6×", 2.2, 2.9, 3.6),
        ("10 to 20%", 0.1, 0.15, 0.2),
    ],
)
def test_the_last_digit_says_how_exact_it_is(written: str, low: float, value: float, high: float) -> None:
    figure = read_figure(written)
    assert (figure.low, figure.value, figure.high) == pytest.approx((low, value, high))
    assert str(figure) == written


@pytest.mark.parametrize("written", ["4-8", "4–8", "4 to 8"])
def test_a_range_of_a_count_is_its_whole_numbers(written: str) -> None:
    assert read_figure(written, rounded=False).points() == (4, 5, 6, 7, 8)


def test_a_count_is_exact_and_half_a_bit_stays_half_a_bit() -> None:
    assert read_figure("3", rounded=False).points() == (3,)
    assert read_figure("4.5", rounded=False).points() == (4.5,)


@pytest.mark.parametrize(
    "written", ["", "two", ".", "-", "8-4", "-4-8", "1-", "1e", "3 %%", "nan", "inf", "1e99", "1e999999999", "9" * 99]
)
def test_what_is_no_figure_is_refused(written: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_figure(written)


@given(st.floats(0.01, 1e6), st.integers(0, 6))
def test_a_rounded_number_lies_in_its_figure(number: float, digits: int) -> None:
    written = f"{number:.{digits}f}"
    figure = read_figure(written)
    assert figure.low - 1e-9 <= number <= figure.high + 1e-9


@given(st.floats(1e-6, 1e12))
def test_four_digits_are_shown(number: float) -> None:
    assert float(shown(number).replace(",", "")) == pytest.approx(number, rel=1e-3)


@given(
    *[st.tuples(st.floats(0.5, 100), st.floats(0, 0.4)) for _ in range(2)],
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_a_function_s_spread_holds_every_value_over_the_ranges(one, other, at, where) -> None:  # type: ignore[no-untyped-def]
    a, b = (Figure(v, v * (1 - r), v * (1 + r)) for v, r in (one, other))
    result = spread(lambda x, y: x / y, a, b)
    inside = (a.low + at * (a.high - a.low)) / (b.low + where * (b.high - b.low))
    assert result.low <= inside * (1 + 1e-9)
    assert inside <= result.high * (1 + 1e-9)


def test_ranges_that_touch_are_not_below_each_other() -> None:
    assert not Figure.exact(1).below(Figure.exact(1))
    assert not Figure(0.1 + 0.2, 0, 0.1 + 0.2).below(Figure(0.3, 0.3, 1))
    assert Figure.exact(1).below(Figure.exact(1.001))
    assert not Figure.exact(math.inf).below(Figure.exact(1))
