"""Figures are written the same way everywhere, and what is unknown is never a zero."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.analysis.cell_summary import CellSummary
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


def test_acceptance_length_in_full_has_its_interval_where_prompts_are_told_apart() -> None:
    cell = CellSummary(
        backend="reference", target="demo", workload="chat", method="ngram", gamma=4, as_deployed=False, drafter=None,
        batch_size=1, temperature=0.0, status="ok", mean_acceptance_length=2.312, degenerate_requests=3,
    )  # fmt: skip
    told = replace(cell, mean_acceptance_length_ci_low=2.119, mean_acceptance_length_ci_high=2.5)
    assert figures.acceptance_length_in_full(told) == "2.31 [2.12, 2.50] (3)"
    assert figures.acceptance_length_in_full(replace(told, degenerate_requests=0)) == "2.31 [2.12, 2.50]"
    assert figures.acceptance_length_in_full(cell) == "2.31 (3)"
