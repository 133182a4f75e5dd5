"""What may be true beside the best estimate: draws from the fit, and walks along one thing that is not sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.planning.fit import Fit

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shifts:
    """Differences from the best estimate, one row each; both arms of a row share them, so that what is common cancels.

    theta: of the fit's parameters [rows, parameters]
    form:  of ln capacity without and with speculation [rows, 2]: what the form of the model leaves out
    """

    theta: Floats
    form: Floats

    @classmethod
    def none(cls, fit: Fit) -> Shifts:
        """The best estimate alone."""
        return cls(np.zeros((1, len(fit.theta))), np.zeros((1, 2)))

    @classmethod
    def drawn(cls, fit: Fit, form: float, rows: int, seed: int) -> Shifts:
        """After a row for the best estimate. form: standard deviation"""
        rng = np.random.default_rng(seed)
        zeros = np.zeros(len(fit.theta))
        theta = rng.multivariate_normal(zeros, fit.covariance, rows, method="eigh", check_valid="ignore")
        off = rng.normal(scale=form, size=(rows, 2))
        theta[0], off[0] = 0.0, 0.0
        return cls(theta, off)

    @classmethod
    def along(cls, fit: Fit, names: Sequence[str], deviations: Sequence[float]) -> Shifts:
        """The sum of some parameters so many standard deviations away, and the others as they then go with it."""
        wanted = np.array([name in names for name in fit.model.names], float)
        shared = fit.covariance @ wanted
        spread = np.sqrt(wanted @ shared)
        direction = shared / spread if spread > 0 else shared
        return cls(np.outer(deviations, direction), np.zeros((len(deviations), 2)))
