"""Predicting cells from a fit: with the error of its own form, and intervals that held-out cells calibrate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from specbench.planning.cells import Observation, Point
from specbench.planning.fit import DISCREPANCY, Fit, fit

Floats = NDArray[np.float64]

LEVEL = 0.9
_REACH_BATCH, _REACH_GAMMA = 1.2, 2.5
"""Over what distance in ln batch size, and in gamma, the model errs alike."""
_LEAST_HELD_OUT, _MOST_REFITS = 4, 40


@dataclass(frozen=True, slots=True)
class Estimate:
    """A predicted figure, and the interval that a measurement of it falls into with a probability of `LEVEL`."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, log_value: float, half_width: float) -> Estimate:
        return cls(math.exp(log_value), math.exp(log_value - half_width), math.exp(log_value + half_width))


@dataclass(frozen=True, slots=True)
class HeldOut:
    """A measured cell beside what a fit without it predicts. error: ln measured − ln predicted;  spread: of it"""

    observation: Observation
    predicted: float
    error: float
    spread: float


@dataclass(frozen=True)
class Calibrated:
    """A fit with its cells held out in turn, and the factor on predicted spreads that this asks for.

    basis: "held-out cells" (conformal), or "Student's t" where there are too few of them
    """

    fit: Fit
    held_out: tuple[HeldOut, ...]
    factor: float
    basis: str

    @property
    def mean_error(self) -> float | None:
        """Mean of |predicted ÷ measured − 1| over held-out cells; None where too few to hold any out."""
        if not self.held_out:
            return None
        return float(np.mean([abs(math.expm1(-h.error)) for h in self.held_out]))

    def throughput(self, points: Sequence[Point]) -> list[Estimate]:
        """Output tokens per second, as one more measurement would show them."""
        centres, spreads = log_throughput(self.fit, points)
        return [Estimate.around(c, self.factor * s) for c, s in zip(centres, spreads, strict=True)]

    def speedup(self, points: Sequence[Point]) -> list[Estimate]:
        """Over plain decoding at the same batch size: what both share cancels."""
        n, everywhere = len(points), [*points, *(p.plain for p in points)]
        shift, variance = _discrepancy(self.fit, everywhere)
        centre = self.fit.log_rates(everywhere) + shift
        sensitivity = self.fit.sensitivity(everywhere)
        spread = np.sqrt(
            _variance(self.fit, sensitivity[:n] - sensitivity[n:]) + variance[:n] + variance[n:] + 2 * self.fit.noise**2
        )
        both = zip(centre[:n] - centre[n:], spread, strict=True)
        return [Estimate.around(c, self.factor * s) for c, s in both]


def calibrated(found: Fit) -> Calibrated:
    """Holds out each cell in turn, of large runs several at a time. Where no other cell shows its arm, the prior alone
    predicts it.
    """
    seen = found.observations
    if len(seen) < _LEAST_HELD_OUT:
        return Calibrated(found, (), _students_factor(len(seen)), "Student's t")
    folds = min(len(seen), _MOST_REFITS)
    by_cell: dict[int, HeldOut] = {}
    for fold in range(folds):
        rest = fit(found.model, [o for i, o in enumerate(seen) if i % folds != fold], found.theta)
        for i in range(fold, len(seen), folds):
            o = seen[i]
            centre, spread = (values.item() for values in log_throughput(rest, [o.point], o.noise))
            by_cell[i] = HeldOut(o, math.exp(centre), math.log(o.tokens_per_second) - centre, spread)
    held_out = [by_cell[i] for i in range(len(seen))]
    factor = conformal_factor([abs(h.error) / h.spread for h in held_out])
    if factor is None:
        rms = math.sqrt(sum((h.error / h.spread) ** 2 for h in held_out) / len(held_out))
        return Calibrated(found, tuple(held_out), _students_factor(len(seen)) * max(1.0, rms), "Student's t")
    return Calibrated(found, tuple(held_out), factor, "held-out cells")


def conformal_factor(scores: Sequence[float], level: float = LEVEL) -> float | None:
    """The ⌈(n + 1) · level⌉-th smallest of n standardised errors; None where n is too small for it (9 for 90 %)."""
    rank = math.ceil((len(scores) + 1) * level - 1e-9)
    return sorted(scores)[rank - 1] if rank <= len(scores) else None


def log_throughput(found: Fit, points: Sequence[Point], noise: float | None = None) -> tuple[Floats, Floats]:
    """Centre and standard deviation of ln throughput at points, of a new measurement with that noise: [points] each."""
    shift, variance = _discrepancy(found, points)
    spread = np.sqrt(_variance(found, found.sensitivity(points)) + variance + (noise or found.noise) ** 2)
    return found.log_rates(points) + shift, spread


def _variance(found: Fit, sensitivity: Floats) -> Floats:
    return np.asarray(np.einsum("ip,pq,iq->i", sensitivity, found.covariance, sensitivity))


def _discrepancy(found: Fit, points: Sequence[Point]) -> tuple[Floats, Floats]:
    """What the form of the model gets wrong at points, from its residuals nearby: mean and variance, [points] each.

    A Gaussian process over ln batch size and gamma, of each arm by itself.
    """
    seen = [o.point for o in found.observations]
    residuals = np.log([o.tokens_per_second for o in found.observations]) - found.log_rates(seen)
    noise = np.diag([o.noise**2 for o in found.observations])
    across = alike(points, seen)
    gain = np.linalg.solve(alike(seen, seen) + noise, across.T).T
    return gain @ residuals, np.maximum(DISCREPANCY**2 - np.sum(gain * across, axis=1), 0.0)


def alike(these: Sequence[Point], those: Sequence[Point]) -> Floats:
    """Covariance of the discrepancy at these points with that at those: [these, those]."""
    of = np.array([[math.log(p.batch_size) / _REACH_BATCH, p.gamma / _REACH_GAMMA] for p in these])
    to = np.array([[math.log(p.batch_size) / _REACH_BATCH, p.gamma / _REACH_GAMMA] for p in those])
    same = np.array([[(p.workload, p.method) == (q.workload, q.method) for q in those] for p in these])
    squared = ((of[:, None] - to[None]) ** 2).sum(axis=-1)
    return np.where(same, DISCREPANCY**2 * np.exp(-squared / 2), 0.0)


def _students_factor(cells: int) -> float:
    return float(stdtrit(max(1, cells - 1), (1 + LEVEL) / 2))
