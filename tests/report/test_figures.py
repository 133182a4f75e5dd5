"""Figures are written the same way everywhere, and what is unknown is never a zero."""

from __future__ import annotations

import pytest

from specbench.report import figures


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (figures.number(None, 2), "–"),
        (figures.number(1234.567, 1), "1,234.6"),
        (figures.money(22.6608), "22.66"),
        (figures.money(0.0512), "0.051"),
        (figures.money(None), "–"),
        (figures.percent(0.537), "54%"),
        (figures.percent(-0.001), "0%"),
        (figures.percent(-0.12), "-12%"),
        (figures.percent(None), "–"),
        (figures.gibibytes(3 * 2**29), "1.50"),
        (figures.gibibytes(None), "–"),
    ],
)
def test_figures_are_written_as_people_read_them(written: str, expected: str) -> None:
    assert written == expected
