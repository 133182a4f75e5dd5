"""Ranking arms and choosing gamma by batch size, whatever was measured."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.analysis.bootstrap import RESAMPLES
from specbench.analysis.statistics import replicate_interval
from specbench.analysis.verdict import Outcome
from specbench.recommend.by_batch import best_by_batch
from specbench.recommend.curves import constant_gamma, gamma_by_batch, loses, turn_off_above
from specbench.recommend.draws import JointDraws, Range
from specbench.recommend.evidence import Candidate, Evidence

SIZES = (1, 2, 4, 8)


def evidence(cells: dict[tuple[str, int, int], tuple[float, float]]) -> Evidence:
    """Of (method, gamma, batch size) -> (ln speedup, its standard error)."""
    source = np.random.default_rng(0)
    arms: dict[tuple[str, int], dict[int, Candidate]] = defaultdict(dict)
    for (method, gamma, size), (centre, error) in cells.items():
        low, high = centre - 1.96 * error, centre + 1.96 * error
        outcome: Outcome = "gain" if low > 0 else "no gain" if high < math.log(1.03) else "unsure"
        draws = centre + error * source.standard_normal(RESAMPLES)
        arms[method, gamma][size] = Candidate(method, gamma, size, outcome, centre <= 0, centre, draws, ())
    return Evidence(("chat",), SIZES, dict(arms), {}, {}, ())


CELLS = st.dictionaries(
    st.tuples(st.sampled_from(["ngram", "eagle3"]), st.sampled_from([1, 3, 5]), st.sampled_from(SIZES)),
    st.tuples(st.floats(-0.7, 0.9), st.floats(0.001, 0.3)),
    min_size=1,
)


@given(CELLS)
@settings(max_examples=60)
def test_probabilities_of_being_best_add_up_to_one(cells: dict[tuple[str, int, int], tuple[float, float]]) -> None:
    for at in best_by_batch(evidence(cells)):
        assert math.fsum(c.p_best for c in at.contenders) == pytest.approx(1)
        values = [c.speedup.value or 0 for c in at.contenders]
        assert values == sorted(values, reverse=True)
        assert {c.method for c in at.contenders} >= {"none"}


@given(CELLS)
@settings(max_examples=60)
def test_a_schedule_covers_every_batch_size_and_speculates_where_it_is_measured_to_pay(
    cells: dict[tuple[str, int, int], tuple[float, float]],
) -> None:
    found = evidence(cells)
    for method in ("ngram", "eagle3"):
        chosen = gamma_by_batch(found, method)
        assert sorted(chosen.gammas) == list(range(1, max(SIZES) + 1))
        for size in SIZES:
            here = [c for (m, _), by_batch in found.arms.items() if m == method for c in by_batch.values()]
            gains = [c.log_speedup for c in here if c.batch_size == size and c.outcome == "gain"]
            point, _ = chosen.at(size)
            assert point >= max(gains, default=0.0)
            measured = found.arms.get((method, chosen.gammas[size]), {}).get(size)
            if measured is not None:
                assert measured.log_speedup > 0
                assert measured.outcome != "no gain"
        if chosen.is_on:
            ranges = chosen.schedule.ranges(max(SIZES))
            assert [first for first, _, _ in ranges][1:] == [last + 1 for _, last, _ in ranges][:-1]
            assert chosen.schedule.at(max(SIZES) + 1) == 0


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=12))
def test_draws_of_one_figure_are_its_t_interval(logs: list[float]) -> None:
    draws = JointDraws(range(len(logs))).of(dict(enumerate(logs)))
    assert draws is not None
    expected = replicate_interval(logs)
    half = math.log(expected.high / expected.low) / 2
    # The median of the draws is known to some per cent of their spread.
    assert np.median(draws) == pytest.approx(np.mean(logs), abs=0.15 * half + 1e-9)
    low, high = np.quantile(draws, [0.025, 0.975])
    assert (high - low) / 2 == pytest.approx(half, rel=0.3, abs=1e-9)


def test_figures_that_share_launches_move_together() -> None:
    joint = JointDraws(range(4))
    one = joint.of({0: 0.1, 1: 0.3, 2: 0.2, 3: 0.5})
    two = joint.of({0: 0.2, 1: 0.4, 2: 0.3, 3: 0.6})
    assert one is not None
    assert two is not None
    assert two - one == pytest.approx(0.1)
    assert joint.of({0: 0.1}) is None


def test_an_unsure_batch_size_between_two_gains_stays_on_and_one_above_them_goes_off() -> None:
    cells = {("ngram", 3, size): (0.2, error) for size, error in zip(SIZES, (0.02, 0.2, 0.02, 0.2), strict=True)}
    assert set(gamma_by_batch(evidence(cells), "ngram").gammas.values()) == {0, 3}
    assert gamma_by_batch(evidence(cells), "ngram").gammas == {**dict.fromkeys(range(1, 5), 3), 5: 0, 6: 0, 7: 0, 8: 0}


def test_a_constant_gamma_needs_every_measured_batch_size() -> None:
    cells = {("ngram", 3, size): (0.2, 0.01) for size in SIZES} | {("ngram", 5, size): (0.2, 0.01) for size in (1, 8)}
    whole = constant_gamma(evidence(cells), "ngram", 3)
    assert whole is not None
    assert whole.at(3)[0] == pytest.approx(0.2)
    assert constant_gamma(evidence(cells), "ngram", 5) is None
    assert constant_gamma(evidence(cells), "eagle3", 3) is None
    there = constant_gamma(evidence(cells), "ngram", 5, {1, 8})
    assert there is not None
    assert there.at(8)[0] == pytest.approx(0.2)


@pytest.mark.parametrize("missing", [2, 4])
def test_a_gamma_is_off_where_its_cell_counts_for_nothing_and_up_to_the_next_ones(missing: int) -> None:
    """As where outputs diverge, or the launch died: no line goes across it."""
    cells = {("ngram", 3, size): (0.2, 0.01) for size in SIZES if size != missing}
    chosen = gamma_by_batch(evidence(cells), "ngram")
    low, high = missing // 2, missing * 2
    assert {size for size, gamma in chosen.gammas.items() if not gamma} == set(range(low + 1, high))


def test_a_loss_is_shown_at_a_batch_size_by_every_arm_or_not_at_all() -> None:
    cells = {("ngram", 3, size): (x, 0.01) for size, x in zip(SIZES, (0.2, 0.1, -0.2, -0.3), strict=True)}
    found = evidence(cells)
    # The line from .1 at 2 to -.2 at 4 is at -.075 at 3.
    assert [loses(found, size) for size in (1, 2, 3, 4, 8, 9)] == [False, False, True, True, True, False]
    unsure = evidence(cells | {("ngram", 5, size): (0.0, 0.2) for size in SIZES})
    assert not any(loses(unsure, size) for size in range(1, 9))
    assert not loses(evidence({}), 1)


def test_where_it_still_pays_at_the_largest_batch_size_there_is_no_end_to_tell() -> None:
    off = turn_off_above(evidence({("ngram", 3, size): (0.2, 0.01) for size in SIZES}), "ngram")
    assert off is not None
    assert off.batch_size == Range(None, None, None)
    assert off.largest == 8
    maybe = turn_off_above(evidence({("ngram", 3, 4): (0.2, 0.01), ("ngram", 3, 8): (0.05, 0.05)}), "ngram")
    assert maybe is not None
    assert maybe.batch_size.value is None
    assert maybe.batch_size.low is not None
    assert 4 < maybe.batch_size.low < 8
    assert turn_off_above(evidence({("ngram", 3, 4): (0.2, 0.01)}), "suffix") is None
