"""What is known of throughput at every point of a grid: by the model, and where a cell was measured by that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from specbench.planning.cells import Point
from specbench.planning.fit import DISCREPANCY
from specbench.planning.prediction import LEVEL, Calibrated, alike

Floats = NDArray[np.float64]

_SEED = 20_262


def posterior(found: Calibrated, grid: Sequence[Point]) -> tuple[Floats, Floats]:
    """Mean [points] and covariance [points, points] of ln throughput, the noise of a further measurement not in it.

    A Gaussian process around the fitted model, linear in its parameters (Rasmussen and Williams, Gaussian Processes for
    Machine Learning, 2006, eq. 2.42). What the model says is widened by the factor that held-out cells ask for, above a
    normal: parameters and discrepancy, but not the noise of measurements. So a cell that was measured is known as well
    as it was measured, however wrong the model's form, and one that was not as badly as held-out cells were predicted.
    """
    fitted, seen = found.fit, [o.point for o in found.fit.observations]
    widened = max(1.0, found.factor / float(ndtri((1 + LEVEL) / 2))) ** 2
    noise = np.diag([o.noise**2 for o in fitted.observations])
    residuals = np.log([o.tokens_per_second for o in fitted.observations]) - fitted.log_rates(seen)
    there, here = fitted.sensitivity(seen), fitted.sensitivity(grid)
    weights = np.diag(1 / (noise.diagonal() + DISCREPANCY**2))  # of throughput, in the fit
    precision = np.linalg.inv(widened * alike(seen, seen) + noise)
    gain = widened * alike(grid, seen) @ precision
    # Of the parameters without throughput: what the fit knows, less what throughput told it.
    alone = _at_least(np.linalg.inv(fitted.covariance) - there.T @ weights @ there, fitted.model.prior().spread)
    covariance = np.linalg.inv(alone / widened + there.T @ precision @ there)
    shift = covariance @ there.T @ (precision - weights / widened) @ residuals
    rest = here - gain @ there
    mean = fitted.log_rates(grid) + here @ shift + gain @ (residuals - there @ shift)
    spread = widened * alike(grid, grid) - widened * gain @ alike(seen, grid) + rest @ covariance @ rest.T
    return mean, (spread + spread.T) / 2


def draws(covariance: Floats, count: int) -> Floats:
    """[count, points] draws from a normal around 0, the same ones whenever it is asked. covariance [points, points]"""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    source = np.random.default_rng(_SEED).standard_normal((count, len(values)))
    return np.asarray(source @ (vectors * np.sqrt(np.maximum(values, 0))).T)


def _at_least(precision: Floats, prior_spread: Floats) -> Floats:
    """A precision no less than the widest prior's: outliers that the fit tamed told it less than is taken off."""
    values, vectors = np.linalg.eigh((precision + precision.T) / 2)
    return np.asarray((vectors * np.maximum(values, prior_spread.max() ** -2)) @ vectors.T)
