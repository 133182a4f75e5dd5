"""The decision rule's promises: of the committed result, and again on a small scale by the code as it is now."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import decision_rule
from decision_rule import RESULT, World, coverage, detection, false_regressions, gate_looks

from specbench.analysis.decision import LEAST_PAIRS
from specbench.analysis.sequential import Looks, always_valid_interval, always_valid_margin
from specbench.analysis.statistics import Interval, replicate_interval

WORLD, LOOKS = World(), gate_looks(World())


def suits(_: Sequence[float], interval: Interval | None) -> bool:
    return interval is not None and not interval.low <= 1 <= interval.high


@pytest.fixture(scope="module")
def result() -> dict:  # type: ignore[type-arg]
    return json.loads(RESULT.read_text(encoding="utf-8"))


class TestCommittedResult:
    def test_it_is_of_the_world_and_the_looks_that_the_script_has_now(self, result) -> None:  # type: ignore[no-untyped-def]
        assert {name: result["world"][name] for name in asdict(WORLD)} == asdict(WORLD)
        planned = " → ".join(map(str, LOOKS.sizes))
        assert any(row["pairs"] == planned for row in result["detection"])

    def test_at_most_one_false_regression_in_a_thousand_from_five_interleaved_pairs_on(self, result) -> None:  # type: ignore[no-untyped-def]
        rows = [
            r for r in result["false_regressions"] if r["comparison"] == "interleaved, paired" and r["pairs"] != "2"
        ]
        assert len(rows) >= 4
        assert all(row["per_1000_below"] <= 1 for row in rows)

    def test_a_loss_of_5_percent_is_found_in_19_of_20(self, result) -> None:  # type: ignore[no-untyped-def]
        assert all(row["found"] >= 0.95 for row in result["detection"])

    def test_95_percent_intervals_hold_the_truth(self, result) -> None:  # type: ignore[no-untyped-def]
        rows = {(row["interval"], row["stopping"].split(",")[0]): row for row in result["coverage"]}
        assert all(row["sweeps"] >= 2_000 for row in rows.values())
        fixed = [row["coverage"] for (_, stopping), row in rows.items() if stopping.endswith("replicates")]
        assert len(fixed) >= 3
        assert all(0.93 <= held <= 0.97 for held in fixed)
        peeked = "as soon as it leaves 1 out"
        assert 0.93 <= rows["t, level spent over looks", peeked]["coverage"] <= 0.97
        assert rows["always-valid", peeked]["coverage"] >= 0.95
        assert rows["always-valid", "until it is ±3 %"]["coverage"] >= 0.95
        assert rows["replicates (t)", peeked]["coverage"] < 0.93


def test_a_comparison_of_equals_is_no_regression_however_often_it_looks() -> None:
    assert false_regressions(WORLD, LOOKS, 1, 1_000, seed=1).regressions <= 1
    assert false_regressions(World(noise=0.014, cell_noise=0.014), LOOKS, 4, 200, seed=2).regressions <= 1


def test_two_pairs_are_too_few() -> None:
    """Why the gate needs five: a spread that is small by luck."""
    two, five = (false_regressions(WORLD, Looks((pairs,)), 1, 4_000, seed=3) for pairs in (2, LEAST_PAIRS))
    assert two.regressions > five.regressions
    assert five.regressions <= 2


@pytest.mark.parametrize("looks", [Looks((28,)), LOOKS], ids=["28 pairs", "more pairs while unsure"])
def test_a_loss_of_5_percent_is_found(looks: Looks) -> None:
    found = detection(WORLD, looks, 1, 600, seed=4)
    assert found.found > 0.925
    assert found.mean_pairs <= looks.sizes[-1]


@pytest.mark.parametrize("replicates", [3, 5])
def test_the_interval_of_a_sweep_holds_the_speedup_under_drift(replicates: int) -> None:
    held = coverage(WORLD, "t", replicate_interval, "", lambda *_: True, replicates, replicates, 1_000, seed=5)
    assert 0.93 < held.coverage < 0.97


def test_only_a_sequential_interval_survives_one_who_stops_when_it_suits() -> None:
    ordinary, valid = (
        coverage(WORLD, "", over, "", suits, 3, 16, 500, seed=6, truth=1.0)
        for over in (replicate_interval, always_valid_interval)
    )
    assert ordinary.coverage < 0.9
    assert valid.coverage > 0.94


def test_until_it_is_known_takes_more_replicates_than_luck_would() -> None:
    def precise(ratios: Sequence[float], _: Interval | None) -> bool:
        return always_valid_margin(ratios) <= math.log(1.03)

    held = coverage(WORLD, "", always_valid_interval, "", precise, 3, 20, 300, seed=7)
    assert held.coverage > 0.95
    assert 8 < held.mean_replicates < 18


def test_arms_take_turns_so_that_a_steady_drift_cancels() -> None:
    drifting = World(noise=0.0, step=0.0, trend=0.01)
    logs = drifting.pairs(decision_rule.np.random.default_rng(0), 1, 4)[0, :, :, 0]
    assert (logs[:, 1] - logs[:, 0]).tolist() == pytest.approx([0.01, -0.01, 0.01, -0.01])
