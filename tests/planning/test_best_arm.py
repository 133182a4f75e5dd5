"""The best arm: what is clearly faster is taken and sure, what is as good as plain decoding is left off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from known_cells import MODEL, THETA, grid, measure, point

from specbench.planning.best_arm import best_arms
from specbench.planning.cells import Observation
from specbench.planning.fit import fit
from specbench.planning.prediction import calibrated

POINTS = grid(["eagle3"])


def test_of_a_whole_grid_it_is_the_truly_fastest_or_one_as_good() -> None:
    found = best_arms(calibrated(fit(MODEL, measure(POINTS, noise=0.005))), POINTS)
    true = MODEL.steps(THETA, POINTS).tokens_per_second
    assert [(POINTS[b.best].workload, POINTS[b.best].batch_size) for b in found] == [
        ("chat", size) for size in (1, 4, 16, 64)
    ]
    for b in found:
        assert true[b.best] >= true[[b.best, *b.ahead]].max() / 1.03
        assert b.probability > 0.8
        assert len(b.ahead) == 5


def test_where_an_arm_gains_nothing_plain_decoding_is_taken() -> None:
    """Every arm is exactly as fast: none is ahead, and nothing is worth switching on."""
    same = [point("none", 0, 8), point("eagle3", 1, 8), point("eagle3", 2, 8)]
    seen = [Observation(p, 1000.0, 0.002) for p in same for _ in range(40)]
    (found,) = best_arms(calibrated(fit(MODEL, seen)), same)
    assert same[found.best].gamma == 0
    assert found.probability == pytest.approx(1, abs=0.01)


def test_less_is_sure_from_fewer_or_noisier_cells() -> None:
    def sureness(cells: int, noise: float) -> float:
        seen = [replace(o, noise=noise) for o in measure(POINTS, noise=0)[:cells]]
        return min(b.probability for b in best_arms(calibrated(fit(MODEL, seen)), POINTS))

    assert sureness(8, 0.01) < sureness(24, 0.01)
    assert sureness(24, 0.2) < sureness(24, 0.01)
