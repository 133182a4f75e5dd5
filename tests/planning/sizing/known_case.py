"""Fleets to be sized whose figures can be worked out by hand, or are known to move one way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from known_cells import LLAMA_70B

from specbench.hardware.catalogue import catalogue, find_gpu
from specbench.planning.fit import Fit, unfitted
from specbench.planning.machine import Machine
from specbench.planning.parameters import Model
from specbench.planning.shape import ModelShape
from specbench.planning.sizing.acceptance import with_acceptance
from specbench.planning.sizing.case import Case
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.services import Gammas, best_schedule

ARM = ("chat", "eagle3")
MODEL = Model(ModelShape.of(LLAMA_70B), Machine.of(find_gpu("H200", catalogue()), 4), (ARM,))
CHAT = Demand(20.0, 60.0, np.full(1, 800, np.int32), np.full(1, 250, np.int32), "chat")

CLOCK = ModelShape(layers=1, heads=1, kv_heads=1, head_dim=1, hidden=1, shared=1.0)
TICK = 0.01
"""A pass of this model takes a tick, whatever is in it."""


def case(acceptance: Sequence[float] = (0.75,), demand: Demand = CHAT, **fields: Any) -> Case:
    """A 70B model on four H200 by the catalogue, with EAGLE-3, its best schedule and a chat's SLO."""
    fit = with_acceptance(unfitted(MODEL, 0.02), ARM, acceptance)
    schedule = best_schedule(MODEL, fit.theta, ARM, 1.0, range(1, 6), demand, 256)
    return _case(fit, schedule, demand, {"slo": {"ttft_p95": 2.0, "tpot_p95": 0.05}, "gpus": 4, **fields})


def clockwork(demand: Demand, schedule: Gammas, **fields: Any) -> Case:
    """Every pass of the target takes TICK, drafting nothing; no SLO."""
    model = Model(CLOCK, Machine(bandwidth=1e30, flops=1e30), (ARM,))
    fit = unfitted(model, 0.02)
    theta = np.array([{"overhead": np.log(TICK), "prefill": 0.0}.get(name, -40.0) for name in model.names])
    theta[model.names.index("exponent")] = 0.0
    theta[[model.names.index(f"chat.eagle3.{name}") for name in ("first", "later", "slope")]] = 40.0, 40.0, 0.0
    covariance = np.zeros_like(fit.covariance)
    return _case(Fit(model, (), theta, covariance, 0.02), schedule, demand, {"slo": {}, "gpus": 1, **fields})


def _case(fit: Fit, schedule: Gammas, demand: Demand, fields: dict[str, Any]) -> Case:
    usual = {"kv_tokens": (10**7, 10**7), "max_batch_size": 256, "price": 2.0, "headroom": 0.2}
    return Case(fit=fit, arm=ARM, drafted_share=1.0, schedule=schedule, demand=demand, **{**usual, **fields})
