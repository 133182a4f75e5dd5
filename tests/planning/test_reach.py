"""The chance that what is left settles a place, against settling it many times over."""

from __future__ import annotations

import numpy as np
import pytest
from known_cells import MODEL, grid, measure

from specbench.planning.best_arm import AS_GOOD, best_arms
from specbench.planning.fit import fit
from specbench.planning.posterior import posterior
from specbench.planning.prediction import calibrated
from specbench.planning.reach import chances

POINTS = grid(["eagle3"])
FOUND = calibrated(fit(MODEL, measure(POINTS, 0.05)[::3]))
BEST = best_arms(FOUND, POINTS)


def test_nothing_is_settled_by_cells_too_noisy_to_tell_and_nearly_all_by_cells_without_noise() -> None:
    (little,) = chances(FOUND, POINTS, BEST[:1], {0: 1}, 0.999_99)
    everything = chances(FOUND, POINTS, BEST, dict.fromkeys(range(len(POINTS)), 10**9), 0.95)
    assert little == 0
    assert min(everything) == 1


def test_it_is_the_share_of_worlds_in_which_another_look_settles() -> None:
    """By brute force: draw a truth, measure all cells there once, condition on that, and see."""
    centre, covariance = posterior(FOUND, POINTS)
    noise, rng = FOUND.fit.noise**2 * np.eye(len(POINTS)), np.random.default_rng(5)
    gain = covariance @ np.linalg.inv(covariance + noise)
    after = covariance - gain @ covariance
    place = min(BEST, key=lambda b: abs(b.probability - 0.7))
    group = [place.best, *place.ahead]
    settled = []
    for _ in range(300):
        truth = rng.multivariate_normal(centre, covariance, check_valid="ignore")
        mean = centre + gain @ (rng.multivariate_normal(truth, noise) - centre)
        rates = rng.multivariate_normal(mean[group], after[np.ix_(group, group)], 1_000, check_valid="ignore")
        good = (rates.max(axis=1, keepdims=True) - rates <= AS_GOOD).mean(axis=0)
        settled.append(good.max() >= 0.95)
    (chance,) = chances(FOUND, POINTS, [place], dict.fromkeys(range(len(POINTS)), 1), 0.95)
    assert chance == pytest.approx(np.mean(settled), abs=0.12)
