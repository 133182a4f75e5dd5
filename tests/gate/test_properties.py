"""What holds of every gate, whatever the figures."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_gate import speedups

from specbench.gate.judge import judge
from specbench.gate.result import FAILING, UNDECIDED
from specbench.gate.rules import Floor, Rules

LOGS = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=8)
CELLS = st.lists(LOGS, min_size=1, max_size=4)
PAIRED = st.booleans()


def rules(paired: bool, margin: float = 0.03) -> Rules:
    return Rules(metrics=("speedup",), margin=margin, paired=paired)


@given(LOGS, LOGS, PAIRED)
def test_swapping_the_sides_turns_a_change_round(before: list[float], after: list[float], paired: bool) -> None:
    a, b = speedups(before), speedups(after, run="b")
    (there,), (back,) = (judge(*sides, rules(paired)).findings for sides in ((a, b), (b, a)))
    if there.change is not None and there.low is not None and back.change is not None and back.high is not None:
        assert there.change * back.change == pytest.approx(1)
        assert there.low * back.high == pytest.approx(1)
    if there.outcome == "regression":
        assert back.outcome == "improvement"


@given(CELLS, CELLS, PAIRED, st.floats(0.2, 5))
def test_a_unit_changes_nothing(before: list[list[float]], after: list[list[float]], paired: bool, unit: float) -> None:
    results = [
        judge(speedups(*before, centre=c), speedups(*after, centre=c, run="b"), rules(paired))
        for c in (1.5, 1.5 * unit)
    ]
    for one, other in zip(results[0].findings, results[1].findings, strict=True):
        assert one.change == (None if other.change is None else pytest.approx(other.change))


@given(CELLS, CELLS, PAIRED)
def test_findings_agree_with_their_intervals_and_the_exit_code_with_them(
    before: list[list[float]], after: list[list[float]], paired: bool
) -> None:
    result = judge(speedups(*before), speedups(*after, run="b"), rules(paired))
    outcomes = {f.outcome for f in result.findings}
    assert result.exit_code == (3 if outcomes & FAILING else 4 if outcomes & UNDECIDED else 0)
    for f in result.findings:
        if f.low is None or f.high is None:
            assert f.outcome == "inconclusive"
            continue
        assert f.low <= f.change <= f.high  # type: ignore[operator]
        if f.outcome == "regression":
            assert f.high < 0.97
        elif f.outcome != "inconclusive":
            assert f.low > 0.97
        if f.outcome == "equivalent":
            assert f.high < 1 / 0.97


@given(CELLS, CELLS, PAIRED, st.floats(0.005, 0.1), st.floats(0.005, 0.1))
def test_a_wider_margin_never_fails_more(
    before: list[list[float]], after: list[list[float]], paired: bool, one: float, other: float
) -> None:
    a, b = speedups(*before), speedups(*after, run="b")
    strict, lax = (judge(a, b, rules(paired, margin)).exit_code for margin in sorted((one, other)))
    assert not (lax == 3 and strict != 3)
    assert not (strict == 0 and lax != 0)


@given(LOGS, st.floats(0.5, 2.5))
def test_a_floor_fails_only_below_and_passes_only_above(logs: list[float], floor: float) -> None:
    (found,) = judge(None, speedups(logs), Rules(floor=Floor(floor, {}))).findings
    mean = 1.5 * math.exp(math.fsum(logs) / len(logs))
    if found.outcome == "regression":
        assert mean < floor
    if found.outcome == "not worse":
        assert mean > floor
