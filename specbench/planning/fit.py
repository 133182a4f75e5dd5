"""Fitting the performance model to measured cells: throughput, the engine's own clock and acceptance, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import logit

from specbench.errors import SpecbenchError
from specbench.planning.cells import Observation, Point
from specbench.planning.parameters import Model, Prior

Floats = NDArray[np.float64]

DISCREPANCY = 0.03
"""Standard deviation of what the model's form leaves out, on the log scale: tiles, schedulers, clocks."""
_CLOCK, _PREFILL, _HAZARD = 0.05, 0.15, 0.03
"""The same for the engine's own clock, the share of prefills (log odds) and acceptance (asin √h)."""
_CLUSTERED = 3.0
"""Steps of one request resemble each other: so many of them weigh as one independent step."""
_OUTLIER = 3.0
"""Residuals beyond so many standard deviations pull less and less."""
_TINY = 1e-6
_STEP = 1e-4


@dataclass(frozen=True)
class Fit:
    """theta [parameters], covariance [parameters, parameters]: the mode and Laplace's approximation around it."""

    model: Model
    observations: tuple[Observation, ...]
    theta: Floats
    covariance: Floats
    noise: float

    def log_rates(self, points: Sequence[Point]) -> Floats:
        """ln tokens per second by the model alone: [points]."""
        return _log_rates(self.model, self.theta, points)

    def sensitivity(self, points: Sequence[Point]) -> Floats:
        """d ln tokens per second / d theta, [points, parameters]: J Σ Jᵀ is the covariance between points, so that what
        two of them share cancels in their ratio.

        Draws of theta would not do: with few cells the posterior is a bent ridge, and a normal around its middle strays
        from it.
        """
        return derivative(lambda theta: _log_rates(self.model, theta, points), self.theta)


def unfitted(model: Model, noise: float) -> Fit:
    """What is known before anything was measured. noise: as in `Observation`"""
    prior = model.prior()
    return Fit(model, (), prior.mean, np.diag(prior.spread**2), noise)


def fit(model: Model, observations: Sequence[Observation], start: Floats | None = None) -> Fit:
    """Least squares on ln throughput and its companions with prior rows; a few outliers do not pull it away.

    Raises SpecbenchError without a measured cell.
    """
    if not observations:
        raise SpecbenchError("there is no cell with a throughput to fit the performance model to.")
    prior = model.prior()
    residuals = _Residuals(model, tuple(observations), prior)
    found = least_squares(
        residuals,
        prior.mean if start is None else start,
        jac=residuals.derivative,
        x_scale=prior.spread,
        loss="soft_l1",
        f_scale=_OUTLIER,
        max_nfev=200,
    )
    # A residual that the loss tames counts with the square root of the loss's slope.
    rows = np.asarray(found.jac, dtype=np.float64)
    covariance = np.linalg.inv(rows.T @ rows)
    noise = float(np.median([o.noise for o in observations]))
    return Fit(model, tuple(observations), found.x, (covariance + covariance.T) / 2, noise)


def _log_rates(model: Model, theta: Floats, points: Sequence[Point]) -> Floats:
    return np.asarray(np.log(model.steps(theta, points).tokens_per_second))


def derivative(function: Callable[[Floats], Floats], theta: Floats) -> Floats:
    """[values, parameters], by central differences: of a function of [draws, parameters], asked twice in all."""
    shifts = _STEP * np.eye(len(theta))
    return np.asarray((function(theta + shifts) - function(theta - shifts)).T / (2 * _STEP))


class _Residuals:
    """theta [..., parameters] → standardised residuals [..., residuals], the prior's last.

    What does not depend on theta is computed once.
    """

    def __init__(self, model: Model, observations: tuple[Observation, ...], prior: Prior) -> None:
        self.model, self.prior = model, prior
        self.points = [o.point for o in observations]
        self.log_rates = np.log([o.tokens_per_second for o in observations])
        self.scales = np.hypot([o.noise for o in observations], DISCREPANCY)
        self.draft = _column([o.draft_cost for o in observations])
        self.verify = _column([o.verify_cost for o in observations])
        self.length = _column([None if o.reached else o.length for o in observations])
        self.prefill = logit(_column([o.prefill_share for o in observations]))
        self.accepted = [(o.point, *_hazards_seen(o)) for o in observations if o.reached and o.steps and o.point.gamma]

    def __call__(self, theta: Floats) -> Floats:
        steps = self.model.steps(theta, self.points)
        rows = [
            (np.log(steps.tokens_per_second) - self.log_rates) / self.scales,
            _known(np.log(steps.draft / steps.plain + _TINY) - np.log(self.draft + _TINY)) / (2 * _CLOCK),
            _known(np.log(steps.verify / steps.plain) - np.log(self.verify)) / _CLOCK,
            _known(logit(np.clip(steps.prefill_share, _TINY, 1 - _TINY)) - self.prefill) / _PREFILL,
        ]
        rows.append(_known(np.log(steps.length) - np.log(self.length)) / _HAZARD)
        for point, seen, scale in self.accepted:
            expected = self.model.hazards(theta, (point.workload, point.method), len(seen))
            rows.append((np.arcsin(np.sqrt(expected)) - seen) / scale)
        return np.concatenate([*rows, (theta - self.prior.mean) / self.prior.spread], axis=-1)

    def derivative(self, theta: Floats) -> Floats:
        return derivative(self, theta)


def _hazards_seen(o: Observation) -> tuple[Floats, Floats]:
    """Of each position that was reached: asin √h, whose spread does not depend on h, and that spread."""
    reached = np.array([o.steps, *(o.reached or ())], float)
    at_risk, accepted = reached[:-1], reached[1:]
    judged = at_risk >= 1
    shares = np.clip(accepted[judged] / at_risk[judged], 0, 1)
    return np.arcsin(np.sqrt(shares)), np.sqrt(_CLUSTERED / (4 * at_risk[judged]) + _HAZARD**2)


def _column(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], float)


def _known(differences: Floats) -> Floats:
    return np.where(np.isfinite(differences), differences, 0.0)
