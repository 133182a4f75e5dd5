"""Words and tables of a recommendation."""

from __future__ import annotations

import pytest

from specbench.recommend.draws import Range
from specbench.recommend.measure import MeasuredSchedule, ScheduleCheck
from specbench.recommend.text import gammas_in_words, schedule_text


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("1=4+9=0", "gamma 4 at batch size 1-8, off from 9 on"),
        ("1=4+2=2+3=0", "gamma 4 at batch size 1, 2 at 2, off from 3 on"),
        ("1=0+4=3+9=0", "off at batch size 1-3, gamma 3 at 4-8, off from 9 on"),
        ("1=4", "gamma 4 at every batch size"),
    ],
)
def test_a_schedule_in_words(schedule: str, words: str) -> None:
    assert gammas_in_words(schedule) == words


def test_a_measured_schedule_is_a_table_with_what_was_predicted() -> None:
    checks = (
        ScheduleCheck(1, 4, Range(1.5, 1.45, 1.55), Range(1.47, 1.4, 1.55), Range(1.31, 1.2, 1.4), "as predicted"),
        ScheduleCheck(8, 0, Range(1.0, 1.0, 1.0), None, Range(0.95, 0.9, 1.0), None),
    )
    shown = schedule_text(MeasuredSchedule("reports/new", "ngram", "1=4+7=0", 2, checks, 1)).splitlines()
    assert shown[0].endswith("gamma 4 at batch size 1-6, off from 7 on; speedup over plain decoding")
    assert [" ".join(line.split()) for line in shown[2:4]] == [
        "1 4 1.50 [1.45, 1.55] 1.47 [1.40, 1.55] 1.31 [1.20, 1.40] as predicted",
        "8 off 1.00 [1.00, 1.00] no evidence 0.95 [0.90, 1.00] -",
    ]
    assert shown[4] == "1 measurements failed."
    assert shown[-1].endswith("specbench report reports/new")
