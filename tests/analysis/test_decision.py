"""The decision rule for a change: what its intervals say, what Holm leaves of it, and how often it errs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.decision import Judgement, judge_changes, verdict
from specbench.analysis.statistics import Estimate, paired

ESTIMATE = st.builds(Estimate, st.floats(-0.2, 0.2), st.floats(0.0001, 0.1), st.integers(1, 30).map(float))


def judge(mean: float, error: float, dof: float = 9, **options: float) -> Judgement:
    return judge_changes({"cell": Estimate(mean, error, dof)}, **options)["cell"]


@pytest.mark.parametrize(
    ("change", "outcome"),
    [(0.93, "regression"), (0.96, "inconclusive"), (1.0, "equivalent"), (1.02, "inconclusive"), (1.08, "improvement")],
)
def test_the_place_of_the_interval_decides(change: float, outcome: str) -> None:
    judged = judge(math.log(change), 0.01)
    assert judged.outcome == outcome
    assert judged.low < change < judged.high
    assert math.log(judged.high / change) == pytest.approx(2.2622 * 0.01, rel=1e-4)


@given(ESTIMATE, st.floats(0.005, 0.2), st.floats(0.8, 0.999))
def test_of_one_cell_the_outcome_is_that_of_its_interval(change: Estimate, margin: float, level: float) -> None:
    judged = judge_changes({"cell": change}, margin, level)["cell"]
    low, high = 1 - margin, 1 / (1 - margin)
    edges = [abs(math.log(end / bound)) for end in (judged.low, judged.high) for bound in (low, high)]
    if min(edges) < 1e-9:
        return
    assert (judged.outcome == "regression") == (judged.high < low)
    assert (judged.outcome == "improvement") == (judged.low > high)
    assert (judged.outcome == "equivalent") == (low < judged.low and judged.high < high)


@given(ESTIMATE)
def test_exchanging_before_and_after_exchanges_regression_and_improvement(change: Estimate) -> None:
    turned = {"regression": "improvement", "improvement": "regression"}
    back = judge(-change.mean, change.error, change.dof).outcome
    assert turned.get(back, back) == judge(change.mean, change.error, change.dof).outcome


def test_holm_doubts_a_regression_that_is_one_of_many_cells() -> None:
    """Alone it would be one; among twenty cells something this odd turns up by chance."""
    alone = Estimate(-0.055, 0.01, 20)
    fine = {f"fine {i}": Estimate(0.0, 0.01, 20) for i in range(19)}
    assert judge_changes({"slow": alone})["slow"].outcome == "regression"
    among = judge_changes({"slow": alone, **fine})
    assert among["slow"].outcome == "inconclusive"
    assert all(among[name].outcome == "equivalent" for name in fine)


@pytest.mark.parametrize(
    ("outcomes", "together"),
    [
        (["equivalent", "regression", "inconclusive"], "regression"),
        (["equivalent", "inconclusive"], "inconclusive"),
        (["equivalent", "improvement"], "equivalent"),
        (["improvement"], "improvement"),
    ],
)
def test_a_run_is_as_good_as_its_worst_cell(outcomes: list[str], together: str) -> None:
    assert verdict(Judgement(o, 1, 1, 1) for o in outcomes) == together  # type: ignore[arg-type]


def test_two_pairs_raise_false_alarms_that_five_do_not() -> None:
    """With 2 % noise per arm: in 29 % of series of 200 A/A comparisons at R = 2, in .8 % of them at R = 5."""
    d = 0.02 * math.sqrt(2) * np.random.default_rng(8).standard_normal((20_000, 5))
    alarms = {
        pairs: sum(judge_changes({"cell": paired(row[:pairs])})["cell"].outcome == "regression" for row in d.tolist())
        for pairs in (2, 5)
    }
    assert 1 - (1 - alarms[2] / 20_000) ** 200 == pytest.approx(0.3, abs=0.12)
    assert alarms[5] <= 6
