"""What a fleet costs, what speculation saves of it, and when that has paid for the work."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.cost import (
    HOURS_PER_MONTH,
    Economics,
    cost_per_million_output_tokens,
    payback_months,
)
from specbench.planning.prediction import LEVEL, Estimate
from specbench.planning.sizing.case import Case
from specbench.planning.sizing.shifts import Shifts

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Saving:
    """What speculation saves, each over all that may be true.

    per_month: rent, negative where it costs more;  replicas: whole ones
    payback: months until the engineering is paid; infinite where it never is. None without a cost of it
    from_tokens: output tokens per month from which on whole replicas are saved, and enough of them to pay the
        engineering within the horizon; infinite where a replica serves no more with speculation
    p_replica: probability that a whole replica is saved;  p_pays: that the horizon's savings exceed the engineering
    """

    per_month: Estimate
    replicas: Estimate
    payback: Estimate | None
    from_tokens: Estimate
    p_replica: float
    p_pays: float


def saving(case: Case, shifts: Shifts, engineering_cost: float | None, horizon_months: float) -> Saving:
    """shifts: the best estimate first"""
    plain, speculative = case.replicas(shifts)
    with np.errstate(invalid="ignore"):
        saved = np.nan_to_num(plain - speculative, nan=0.0, posinf=np.inf, neginf=-np.inf)
    rent = case.gpus * case.price * HOURS_PER_MONTH
    work = engineering_cost or 0.0
    return Saving(
        per_month=around(saved * rent),
        replicas=around(saved),
        payback=None if engineering_cost is None else around(_payback(case, plain, speculative, engineering_cost)),
        from_tokens=around(_from_tokens(case, shifts, math.ceil(work / (rent * horizon_months)) or 1)),
        p_replica=float(np.mean(saved > 0)),
        p_pays=float(np.mean(saved * rent * horizon_months > work)),
    )


def around(draws: Floats) -> Estimate:
    """The first draw, which is the best estimate, and the interval that holds the middle `LEVEL` of them."""
    low, high = np.quantile(draws, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    value = float(draws[0])
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def per_million(replicas: Floats, case: Case, tokens_per_second: float) -> Estimate:
    """Rent of the fleet over so many tokens, by `analysis.cost`: all month long, busy or idle."""
    costs = {
        n: _known(cost_per_million_output_tokens(tokens_per_second, Economics(case.price, int(n * case.gpus))))
        for n in np.unique(replicas[np.isfinite(replicas)])
    }
    return around(np.array([costs.get(n, math.inf) for n in replicas]))


def _payback(case: Case, plain: Floats, speculative: Floats, cost: float) -> Floats:
    economics = Economics(case.price, engineering_cost=cost)
    return np.array(
        [
            0.0
            if math.isinf(n) > math.isinf(m)
            else _known(None if math.isinf(m) else payback_months(int(n * case.gpus), int(m * case.gpus), economics))
            for n, m in zip(plain, speculative, strict=True)
        ]
    )


def _from_tokens(case: Case, shifts: Shifts, replicas: int) -> Floats:
    """⌈a⌉ − ⌈b⌉ is at least k wherever a − b is: from such a volume on they are saved, whatever the rounding."""
    with np.errstate(divide="ignore", invalid="ignore"):
        plain, speculative = case.demand.peak / (case.capacities(shifts) * (1 - case.headroom))
        factor = np.where(plain > speculative, replicas / (plain - speculative), np.inf)
    return np.asarray(factor * case.demand.output_tokens_per_month)


def _known(value: float | None) -> float:
    return math.inf if value is None else value
