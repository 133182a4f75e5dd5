"""How many tokens a step commits: a hazard of acceptance that differs at the first position and then changes evenly."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

Floats = NDArray[np.float64]


def hazards(first: ArrayLike, later: ArrayLike, slope: ArrayLike, positions: int) -> Floats:
    """P(token k is accepted, given that k − 1 were), k = 1 … positions: [..., positions].

    logit h_1 = first, logit h_k = later + slope · (k − 2). One α for all positions errs by up to a third at gammas
    that it was not fitted at, since acceptance decays along a draft.
    """
    first, later, slope = (np.asarray(value, float)[..., None] for value in (first, later, slope))
    k = np.arange(1, positions + 1)
    return np.asarray(expit(np.where(k == 1, first, later + slope * (k - 2))))


def expected_length(first: ArrayLike, later: ArrayLike, slope: ArrayLike, gamma: ArrayLike) -> Floats:
    """τ(γ) = 1 + Σ_{k ≤ γ} Π_{j ≤ k} h_j: tokens per step, bonus token included. Broadcasts; 1 where γ = 0."""
    depth = np.asarray(gamma, int)
    reached = np.cumprod(hazards(first, later, slope, max(1, int(depth.max(initial=1)))), axis=-1)
    k = np.arange(1, reached.shape[-1] + 1)
    return np.asarray(1 + np.where(k <= depth[..., None], reached, 0.0).sum(axis=-1))
