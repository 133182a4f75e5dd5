"""Predictions: their intervals hold what they say, held-out errors are errors of prediction."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_cells import MODEL, THETA, grid, measure, point

from specbench.planning.design import information
from specbench.planning.fit import fit, unfitted
from specbench.planning.prediction import calibrated, conformal_factor


def test_ninety_percent_intervals_hold_eighty_five_to_ninety_eight_percent_of_held_out_cells() -> None:
    """Pooled over worlds with other parameters, of which the model's form misses a little."""
    held_in: list[bool] = []
    points = grid(["eagle3"])
    for seed in range(14):
        rng = np.random.default_rng(seed)
        truth = THETA + 0.3 * MODEL.prior().spread * rng.standard_normal(len(THETA))
        seen = measure(points, 0.02, form=0.03, seed=seed, theta=truth)
        chosen = set(rng.choice(len(points), 10, replace=False).tolist())
        found = calibrated(fit(MODEL, [o for i, o in enumerate(seen) if i in chosen]))
        others = [o for i, o in enumerate(seen) if i not in chosen]
        intervals = found.throughput([o.point for o in others])
        held_in += [e.low <= o.tokens_per_second <= e.high for e, o in zip(intervals, others, strict=True)]
    assert len(held_in) >= 190
    assert 0.85 <= np.mean(held_in) <= 0.98


def test_predicted_speedups_are_the_true_ones_and_hold_them() -> None:
    found = calibrated(fit(MODEL, measure(grid(), noise=0.005)[::2]))
    asked = [point("eagle3", 3, 8), point("eagle3", 7, 64), point("ngram", 5, 32)]
    truth = MODEL.steps(THETA, asked).tokens_per_second / MODEL.steps(THETA, [p.plain for p in asked]).tokens_per_second
    for estimate, true in zip(found.speedup(asked), truth, strict=True):
        assert estimate.value == pytest.approx(true, rel=0.04)
        assert estimate.low < true < estimate.high


def test_a_speedup_is_surer_than_two_throughputs_that_share_the_engines_unknowns() -> None:
    found = calibrated(fit(MODEL, measure(grid(["eagle3"]), noise=0.01)[:6]))
    asked = [point("eagle3", 3, 256)]
    (gain,), (fast,), (slow,) = found.speedup(asked), found.throughput(asked), found.throughput([asked[0].plain])
    width = {e: math.log(e.high / e.low) for e in (gain, fast, slow)}
    assert width[gain] < math.hypot(width[fast], width[slow])


def test_plain_decoding_beside_itself_is_one() -> None:
    found = calibrated(fit(MODEL, measure(grid(["eagle3"]))))
    (same,) = found.speedup([point("none", 0, 16)])
    assert same.value == pytest.approx(1)


def test_held_out_cells_are_predicted_by_fits_that_never_saw_them() -> None:
    seen = measure(grid(["eagle3"]), noise=0.01)
    found = calibrated(fit(MODEL, seen))
    assert [h.observation for h in found.held_out] == seen
    without = fit(MODEL, seen[1:])
    (expected,) = calibrated(without).throughput([seen[0].point])
    assert found.held_out[0].predicted == pytest.approx(expected.value, rel=1e-3)
    assert found.mean_error is not None
    assert found.basis == "held-out cells"


def test_a_large_run_holds_out_several_cells_at_a_time_and_keeps_their_order() -> None:
    seen = measure(grid(), told=False)
    assert len(seen) > 40
    found = calibrated(fit(MODEL, seen))
    assert [h.observation for h in found.held_out] == seen


def test_a_few_cells_fall_back_to_students_t() -> None:
    seen = measure(grid(["eagle3"]))
    assert calibrated(fit(MODEL, seen[:8])).basis == "Student's t"
    three = calibrated(fit(MODEL, seen[:3]))
    assert three.mean_error is None
    assert three.factor == pytest.approx(2.92, abs=0.01)  # the 95th percentile with 2 degrees of freedom


def test_the_conformal_factor_is_the_known_order_statistic() -> None:
    assert conformal_factor(list(range(1, 9))) is None
    assert conformal_factor([3.0, 1.0, 9.0, 2.0, 5.0, 4.0, 8.0, 7.0, 6.0]) == 9.0
    assert conformal_factor([float(i) for i in range(1, 20)]) == 18.0
    assert conformal_factor([float(i) for i in range(1, 19)], level=0.95) is None


@given(st.lists(st.floats(0, 10), min_size=9, max_size=60))
def test_at_most_a_tenth_of_the_scores_lie_above_the_factor(scores: list[float]) -> None:
    factor = conformal_factor(scores)
    assert factor in scores
    assert sum(score > factor for score in scores) <= 0.1 * (len(scores) + 1)


def test_what_was_measured_tells_less_when_measured_again() -> None:
    points = grid(["eagle3"])
    before = information(unfitted(MODEL, 0.02), points, points)
    first = int(before.argmax())
    found = fit(MODEL, measure([points[first]], told=False))
    after = information(found, points, points)
    assert after[first] < 0.1 * before[first]
    assert int(after.argmax()) != first
