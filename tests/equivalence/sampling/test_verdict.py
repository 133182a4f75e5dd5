"""Three verdicts, and which of them wins."""

from __future__ import annotations

import json

import pytest

from specbench.equivalence.sampling.battery import FREQUENCIES, ArmResult
from specbench.equivalence.sampling.results import TestResult, not_made
from specbench.equivalence.sampling.verdict import judge


def arm(p: float = 0.5, other: float = 0.5, detectable: float = 0.05) -> ArmResult:
    tests = (
        TestResult(FREQUENCIES, 10.0, p, 5_000, df=30, detectable=detectable),
        TestResult("other", 1.0, other, 100),
        not_made("third", "nothing to look at"),
    )
    return ArmResult(tests, None)


def test_no_rejection_and_enough_power_is_equivalent() -> None:
    found = judge({"g1": arm(), "g2": arm(detectable=0.08)}, 1e-3, find_tv=0.1)
    assert found.outcome == "EQUIVALENT"
    assert found.detectable == 0.08  # the weakest arm's
    assert found.power_statement == (
        "would have found a bias of TV ≥ 0.080 between the likelier tokens (from 1 % on; the rest as one) "
        "with probability 0.99"
    )


def test_holms_correction_runs_over_all_tests_of_all_arms() -> None:
    found = judge({"g1": arm(p=4e-4), "g2": arm()}, 1e-3, find_tv=0.1)
    assert found.arms["g1"].tests[0].adjusted == pytest.approx(4 * 4e-4)  # four tests were made, two not
    assert found.outcome == "EQUIVALENT"
    assert judge({"g1": arm(p=2e-4), "g2": arm()}, 1e-3, find_tv=0.1).outcome == "NOT EQUIVALENT"


def test_without_power_passing_means_nothing() -> None:
    found = judge({"g1": arm(detectable=0.3)}, 1e-3, find_tv=0.1)
    assert found.outcome == "INCONCLUSIVE"
    assert "raise --draws 9-fold" in found.reason  # a bias found goes as 1 / √draws
    assert judge({"g1": arm()}, 1e-3, 0.1, unsound="no drafts came").outcome == "INCONCLUSIVE"
    assert judge({}, 1e-3, 0.1).outcome == "INCONCLUSIVE"


def test_a_rejection_stands_whatever_the_power() -> None:
    found = judge({"g1": arm(other=0.0, detectable=0.9)}, 1e-3, 0.1, unsound="no drafts came")
    assert found.outcome == "NOT EQUIVALENT"
    assert found.reason == "rejected at family level 0.001: other (g1)"


def test_json_has_every_test_and_holds_no_infinity() -> None:
    value = json.loads(json.dumps(judge({"g1": arm()}, 1e-3, 0.1).to_json(), allow_nan=False))
    assert [test["name"] for test in value["arms"]["g1"]["tests"]] == [FREQUENCIES, "other", "third"]
    assert value["verdict"] == "EQUIVALENT"
