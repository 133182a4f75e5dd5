"""The gate's verdicts: by independent statistics, by direction, and by what can be said without any."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from known_gate import BREEZE, CALM, key, snapshot, speedups
from scipy import stats

from specbench.comparison.metrics import COST
from specbench.comparison.snapshot import Snapshot
from specbench.errors import SpecbenchError
from specbench.gate.judge import judge
from specbench.gate.result import Finding, GateResult
from specbench.gate.rules import Floor, Rules

RNG = np.random.default_rng(4)
BEFORE, AFTER = RNG.normal(0, 0.01, 7), RNG.normal(-0.02, 0.02, 7)


def only(result: GateResult) -> Finding:
    (finding,) = result.findings
    return finding


def shifted(logs: Sequence[float], change: float) -> list[float]:
    return [x + math.log1p(change) for x in logs]


def with_cell(base: Snapshot, **changes: Any) -> Snapshot:
    """The snapshot with its one cell changed."""
    return base.model_copy(update={"cells": (base.cells[0].model_copy(update=changes),)})


class TestStatistics:
    def test_two_stored_runs_have_welchs_interval(self) -> None:
        found = only(judge(speedups(BEFORE), speedups(AFTER, run="b"), Rules()))
        interval = stats.ttest_ind(AFTER, BEFORE, equal_var=False).confidence_interval()
        assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
        assert found.change == pytest.approx(math.exp(AFTER.mean() - BEFORE.mean()))
        assert found.before == pytest.approx(1.5 * math.exp(BEFORE.mean()))
        assert found.p_regression == pytest.approx(
            stats.ttest_ind(AFTER, BEFORE + math.log(0.97), equal_var=False, alternative="less").pvalue
        )

    def test_an_interleaved_session_has_that_of_its_pairs(self) -> None:
        rules = Rules(metrics=("speedup",), paired=True, level=0.99)
        found = only(judge(speedups(BEFORE), speedups(AFTER, run="b"), rules))
        interval = stats.ttest_rel(AFTER, BEFORE).confidence_interval(0.99)
        assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))

    def test_pairs_are_matched_by_replicate_and_halves_of_pairs_are_left_out(self) -> None:
        before = snapshot({"speedup": [[1.5 * math.exp(x) for x in BEFORE]]})
        after = snapshot({"speedup": [[None, *(1.5 * math.exp(x) for x in AFTER[1:])]]}, run="b")
        found = only(judge(before, after, Rules(metrics=("speedup",), paired=True)))
        interval = stats.ttest_rel(AFTER[1:], BEFORE[1:]).confidence_interval()
        assert found.replicates == (6, 6)
        assert found.low == pytest.approx(math.exp(interval.low))

    def test_all_that_is_asked_is_one_family(self) -> None:
        """One cell that is a regression by itself is none among twenty (Holm)."""
        bad = [-0.06, -0.06, -0.03, -0.05, -0.045]
        alone = judge(speedups(CALM), speedups(bad, run="b"), Rules())
        among = judge(speedups(*[CALM] * 20), speedups(bad, *[BREEZE] * 19, run="b"), Rules())
        assert alone.verdict == "FAIL"
        assert only(alone).p_regression < 0.025  # type: ignore[operator]
        assert among.verdict == "INCONCLUSIVE"
        assert among.findings[0].p_regression == pytest.approx(20 * only(alone).p_regression)  # type: ignore[operator]

    def test_acceptance_that_does_not_vary_takes_no_part_of_the_level(self) -> None:
        """It cannot err by chance; only what can stands in the family."""

        def both(noise: Sequence[float], run: str) -> Snapshot:
            figures = {"speedup": [[1.5 * math.exp(x) for x in noise]] * 3, "mean_acceptance_length": [[2.5] * 5] * 3}
            return snapshot(figures, run=run)

        bad = shifted(BREEZE, -0.04)
        alone = judge(both(CALM, "a"), both(bad, "b"), Rules(metrics=("speedup",))).findings
        beside = judge(both(CALM, "a"), both(bad, "b"), Rules()).findings
        assert [f.p_regression for f in beside if f.about == "speedup"] == [f.p_regression for f in alone]


class TestVerdict:
    @pytest.mark.parametrize(
        ("change", "outcome", "exit_code"),
        [(0.0, "equivalent", 0), (-0.1, "regression", 3), (0.1, "improvement", 0), (-0.03, "inconclusive", 4)],
    )
    def test_the_size_of_the_change_decides(self, change: float, outcome: str, exit_code: int) -> None:
        result = judge(speedups(CALM), speedups(shifted(BREEZE, change), run="b"), Rules())
        assert only(result).outcome == outcome
        assert result.exit_code == exit_code

    def test_a_gain_about_as_large_as_the_margin_passes(self) -> None:
        """Its interval reaches out of ±3 % on the good side alone: that nothing is lost is shown."""
        result = judge(speedups(CALM), speedups(shifted(BREEZE, 0.03), run="b"), Rules())
        assert only(result).outcome == "not worse"
        assert result.verdict == "PASS"

    def test_four_replicates_are_too_few_however_clear_they_look(self) -> None:
        result = judge(speedups(CALM), speedups(shifted(BREEZE[:4], -0.2), run="b"), Rules())
        assert result.verdict == "INCONCLUSIVE"
        assert result.replicates_needed == 5
        assert "5 and 4 sound replicates are too few" in only(result).text

    def test_greedy_acceptance_that_never_varies_needs_two(self) -> None:
        def acceptance(value: float, **changes: Any) -> Snapshot:
            return snapshot({"mean_acceptance_length": [[value, value]], "speedup": [[1.5, 1.5]]}, **changes)

        rules = Rules(metrics=("mean_acceptance_length",))
        assert judge(acceptance(2.5), acceptance(2.5, run="b"), rules).verdict == "PASS"
        assert judge(acceptance(2.5), acceptance(2.3, run="b"), rules).verdict == "FAIL"
        assert judge(acceptance(2.5), acceptance(2.5, run="b"), Rules()).verdict == "INCONCLUSIVE"

    @pytest.mark.parametrize("name", ["ttft_ms_p95", "tpot_ms_p50", COST])
    def test_of_times_and_costs_more_is_worse(self, name: str) -> None:
        kept = "output_tokens_per_s" if name == COST else name
        sign = -1 if name == COST else 1  # costs follow from throughput
        sides = [
            snapshot({kept: [[100 * math.exp(sign * (x + d)) for x in CALM]]}, run=run, gpu_price=2.0)
            for run, d in (("a", 0.0), ("b", 0.2))
        ]
        found = only(judge(*sides, Rules(metrics=(name,))))
        assert found.outcome == "regression"
        assert found.change == pytest.approx(math.exp(0.2))
        assert found.low <= found.change <= found.high  # type: ignore[operator]
        assert "+22.1%" in found.text

    def test_another_price_is_no_regression(self) -> None:
        figures = {"output_tokens_per_s": [[100 * math.exp(x) for x in CALM]]}
        cheap, dear = snapshot(figures, gpu_price=1.0), snapshot(figures, run="b", gpu_price=3.6)
        found = only(judge(cheap, dear, Rules(metrics=(COST,))))
        assert found.outcome == "equivalent"
        assert found.after == pytest.approx(3.6 / (100 * 3600) * 1e6, rel=0.01)

    def test_a_lower_speedup_says_which_side_moved(self) -> None:
        def side(plain: float, run: str) -> Snapshot:
            with_method = snapshot(
                {"speedup": [[150 / plain * math.exp(x) for x in CALM]], "output_tokens_per_s": [[150.0] * 5]}, run=run
            )
            without = snapshot({"output_tokens_per_s": [[plain] * 5]}, gamma=0).cells
            return with_method.model_copy(update={"cells": (*with_method.cells, *without)})

        result = judge(side(100, "a"), side(112, "b"), Rules())
        assert result.verdict == "FAIL"
        assert "+0.0% with speculation, +12.0% without" in result.findings[0].text
        assert any("plain decoding that became faster lowers it" in caveat for caveat in result.caveats)

    def test_raw_figures_of_stored_runs_come_with_what_they_cannot_see(self) -> None:
        figures = {"output_tokens_per_s": [[100 * math.exp(x) for x in CALM]]}
        rules = Rules(metrics=("output_tokens_per_s",))
        stored = judge(snapshot(figures), snapshot(figures, run="b"), rules)
        assert any("what sets two days apart" in caveat for caveat in stored.caveats)
        paired = Rules(metrics=("output_tokens_per_s",), paired=True)
        assert judge(snapshot(figures), snapshot(figures, run="b"), paired).caveats == ()


class TestMorePairs:
    def test_so_many_as_it_says_do_decide_nine_times_in_ten(self) -> None:
        """A loss of 5 % at 2 % noise, judged at 3 %: asked with five, answered by simulation."""
        noise = np.asarray(CALM) / np.std(CALM, ddof=1) * 0.02
        asked = only(judge(speedups(noise), speedups(noise - 0.05, run="b"), Rules()))
        n = asked.replicates_needed
        assert n is not None
        assert n > 5
        rng, found = np.random.default_rng(1), 0
        for _ in range(400):
            before, after = rng.normal(0, 0.02, n), rng.normal(-0.05, 0.02, n)
            found += judge(speedups(before), speedups(after, run="b"), Rules()).verdict == "FAIL"
        assert found / 400 > 0.85
        assert f"About {n} sound replicates of each side would decide" in asked.text

    def test_more_cells_need_more_of_them(self) -> None:
        """Each is judged at a smaller share of the level."""
        noise = np.asarray(CALM) * 5 - 0.05
        needed = [
            judge(speedups(*[CALM] * cells), speedups(*[noise] * cells, run="b"), Rules()).replicates_needed
            for cells in (1, 8)
        ]
        assert None not in needed
        assert needed[0] < needed[1]  # type: ignore[operator]

    def test_a_change_at_the_margin_itself_would_never_be_settled(self) -> None:
        result = judge(speedups(CALM), speedups(shifted(CALM, -0.03), run="b"), Rules())
        assert result.replicates_needed is None
        assert "no reasonable number of replicates would tell" in only(result).text
        assert result.wants_more


class TestFloor:
    @pytest.mark.parametrize(("floor", "verdict"), [(1.2, "PASS"), (1.5, "INCONCLUSIVE"), (1.6, "FAIL")])
    def test_it_holds_breaks_or_is_open(self, floor: float, verdict: str) -> None:
        result = judge(None, speedups(CALM), Rules(floor=Floor(floor, {})))
        interval = stats.ttest_1samp(CALM, 0).confidence_interval()
        assert result.verdict == verdict
        assert only(result).low == pytest.approx(1.5 * math.exp(interval.low))
        assert only(result).high == pytest.approx(1.5 * math.exp(interval.high))

    def test_only_at_its_place(self) -> None:
        result = judge(None, speedups(CALM, CALM), Rules(floor=Floor(1.6, {"batch_size": "2", "gamma": "4"})))
        assert [f.cell for f in result.findings] == [key(2)]

    @pytest.mark.parametrize(
        ("at", "says"),
        [
            ({"batch_size": "64"}, "no closed-loop cell .* has: chat, ngram γ4, batch size 1"),
            ({"batch": "1"}, "'batch' is none of workload, method"),
            ({"gamma": "four"}, "expected a number; got 'four'"),
        ],
    )
    def test_a_place_that_is_none_is_refused(self, at: dict[str, str], says: str) -> None:
        with pytest.raises(SpecbenchError, match=says):
            judge(None, speedups(CALM), Rules(floor=Floor(1.2, at)))


class TestWithoutStatistics:
    def test_a_candidate_that_died_fails_even_where_the_rest_is_fine(self) -> None:
        dead = with_cell(speedups(BREEZE, run="b"), failures=1, error="out of memory")
        result = judge(speedups(CALM), dead, Rules())
        assert [f.outcome for f in result.findings] == ["failed", "equivalent"]
        assert "failed in 1 of 5 replicates: out of memory" in result.findings[0].text
        assert result.exit_code == 3

    def test_what_failed_before_is_no_regression(self) -> None:
        sides = [
            with_cell(speedups(CALM, run=run), failures=5, error="out of memory", figures={}) for run in ("a", "b")
        ]
        result = judge(*sides, Rules())
        assert [f.outcome for f in result.findings] == ["no evidence"]
        assert result.exit_code == 4

    @pytest.mark.parametrize(
        ("equivalence", "unasked", "verdict"),
        [
            ("EXACT", False, "PASS"),
            ("NEAR_TIE", False, "PASS"),
            ("DIVERGENT", False, "FAIL"),
            ("DIVERGENT", True, "INCONCLUSIVE"),
            ("NOT_CHECKED", False, "INCONCLUSIVE"),
        ],
    )
    def test_outputs_are_held_against_plain_decoding(self, equivalence: str, unasked: bool, verdict: str) -> None:
        candidate = with_cell(speedups(CALM), equivalence=equivalence, unasked=unasked)
        assert judge(None, candidate, Rules(require_equivalence=True)).verdict == verdict

    def test_acceptance_counted_in_two_ways_is_not_compared(self) -> None:
        figures = {"mean_acceptance_length": [[2.5] * 5]}
        sides = [
            with_cell(snapshot(figures, run=source), acceptance_source=source) for source in ("requests", "counters")
        ]
        found = only(judge(*sides, Rules(metrics=("mean_acceptance_length",))))
        assert found.outcome == "no evidence"
        assert "from requests → from counters" in found.text

    def test_a_metric_that_one_side_lacks_is_no_pass(self) -> None:
        after = snapshot({"speedup": [[None] * 5]}, run="b")
        result = judge(speedups(CALM), after, Rules())
        assert result.exit_code == 4
        assert "The candidate gave no figure" in only(result).text

    def test_an_interrupted_candidate_is_inconclusive_a_smaller_one_is_compared_where_it_can(self) -> None:
        before, after = speedups(CALM, CALM), speedups(BREEZE, run="b")
        assert judge(before, after.model_copy(update={"missing": 5}), Rules()).exit_code == 4
        smaller = judge(before, after, Rules())
        assert smaller.exit_code == 0
        assert smaller.not_compared == ("chat, ngram γ4, batch size 2 (only in a)",)

    @pytest.mark.parametrize(
        ("after", "rules", "says"),
        [
            (speedups(CALM, run="b"), Rules(metrics=(COST,)), "needs a price"),
            (snapshot({"speedup": [[1.5]]}, gamma=2, run="b"), Rules(), "no cell in common"),
            (speedups(CALM, run="b"), Rules(metrics=("latency_speedup",)), "no cell has latency_speedup"),
        ],
    )
    def test_nothing_to_compare_is_said(self, after: Snapshot, rules: Rules, says: str) -> None:
        with pytest.raises(SpecbenchError, match=says):
            judge(speedups(CALM), after, rules)

    def test_an_unknown_metric_is_refused_with_those_that_are_known(self) -> None:
        with pytest.raises(SpecbenchError, match=r"cannot compare 'speed'. Choose from: speedup"):
            Rules(metrics=("speed",))
