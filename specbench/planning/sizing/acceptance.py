"""Acceptance that a user assumes, in place of a measured one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logit

from specbench.errors import SpecbenchError
from specbench.planning.fit import Fit

SPREAD = 0.2
"""Standard deviation of an assumed acceptance, in logits: 0.70 is 0.66 to 0.74."""


def with_acceptance(fit: Fit, arm: tuple[str, str], conditional: Sequence[float]) -> Fit:
    """conditional: chance that position k is accepted once those before it were; the last ones set how it goes on

    Raises SpecbenchError for what is no chance.
    """
    if not conditional or not all(0 < chance < 1 for chance in conditional):
        raise SpecbenchError(
            f"--acceptance: expected chances above 0 and below 1, as in 0.7 or 0.8,0.7,0.65; got {list(conditional)}."
        )
    first, *others = (float(value) for value in logit(np.asarray(conditional)))
    later, slope = others[0] if others else first, 0.0
    if len(others) > 1:
        slope, later = (float(value) for value in np.polyfit(np.arange(len(others)), others, 1))
    workload, method = arm
    at = [fit.model.names.index(f"{workload}.{method}.{name}") for name in ("first", "later", "slope")]
    theta, covariance = fit.theta.copy(), fit.covariance.copy()
    theta[at] = first, later, slope
    covariance[at, :] = covariance[:, at] = 0.0
    # The first position and the later ones are wrong together: it is one drafter.
    covariance[np.ix_(at[:2], at[:2])] = SPREAD**2
    return replace(fit, theta=theta, covariance=covariance)
