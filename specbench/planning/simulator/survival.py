"""How far drafts are kept, request by request: hazards that differ between requests and agree with the pooled ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from specbench.planning.acceptance import hazards
from specbench.planning.simulator.fleet import Acceptance

Floats = NDArray[np.float64]

KINDS = 32
"""Requests fall into so many kinds, equally likely: quantiles of the normal that is added to their logits."""

_SETTLED = 1e-4
"""Of a weight, by which it may still change."""


def survival(acceptance: Acceptance, positions: int) -> Floats:
    """P(the first k drafted tokens are all kept) in a step of a request of each kind, k = 1 …: [kinds, positions].

    One row where all requests are alike. Pooled over *steps* the rows give `planning.acceptance.hazards`: a request
    whose drafts fail takes more steps and so weighs more, in proportion to 1 / τ.
    """
    fitted = hazards(acceptance.first, acceptance.later, acceptance.slope, positions)
    pooled: Floats = np.asarray(np.cumprod(fitted), np.float64)
    if acceptance.spread == 0:
        return np.asarray(pooled[None])
    effects: Floats = np.asarray(acceptance.spread * ndtri((np.arange(KINDS) + 0.5) / KINDS), np.float64)
    weights: Floats = np.full(KINDS, 1 / KINDS, np.float64)
    while True:
        rows = _rows(pooled, effects, weights)
        steps = 1 / (1 + rows.sum(axis=1))
        before, weights = weights, np.asarray(steps / steps.sum(), np.float64)
        if np.abs(weights - before).max() < _SETTLED / KINDS:
            return rows


def _rows(pooled: Floats, effects: Floats, weights: Floats) -> Floats:
    """Position by position, the logit that makes the weighted mean of what survives the pooled one."""
    rows, reached = [], np.ones(len(effects))
    for target in pooled:

        def missed(logit: float, target: float = target, reached: Floats = reached) -> float:
            return float(weights @ (reached * expit(logit + effects)) - target)

        # A mean that cannot be reached (all kept, or all that survive too few) ends at the largest logit.
        logit = brentq(missed, -60, 60) if missed(60) > 0 else 60.0
        reached = reached * expit(logit + effects)
        rows.append(reached)
    return np.stack(rows, axis=1)
