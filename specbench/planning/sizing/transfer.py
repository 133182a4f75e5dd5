"""A fit carried to hardware or weights that were not measured: wider, by how far such predictions have been off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from specbench.planning.fit import Fit
from specbench.planning.machine import UNKNOWN, Machine
from specbench.planning.shape import ModelShape

SPREAD = 0.2
"""Standard deviation of ln of what an engine reaches of another chip's data sheet, once it is known for one."""


def moved(fit: Fit, shape: ModelShape, machine: Machine) -> Fit:
    """What was found of acceptance and of the draft's relative cost stays. So does the engine's efficiency, less sure;
    but not one that was fitted on a machine of unknown rates, of which only the catalogue's prior is left.
    """
    model = replace(fit.model, shape=shape, machine=machine)
    if (shape, machine) == (fit.model.shape, fit.model.machine):
        return fit
    prior, theta, covariance = model.prior(), fit.theta.copy(), fit.covariance.copy()
    here = np.array(["." not in name for name in model.names])
    if fit.model.machine.spread >= UNKNOWN.spread:
        here |= np.array([name.endswith(".overhead") for name in model.names])
        theta[here] = prior.mean[here]
        covariance[here, :] = covariance[:, here] = 0.0
        covariance[here, here] = prior.spread[here] ** 2
    else:
        covariance[here, here] += SPREAD**2 + machine.spread**2
    return replace(fit, model=model, theta=theta, covariance=covariance)
