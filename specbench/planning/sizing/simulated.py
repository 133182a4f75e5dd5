"""A replica's capacity from the simulator: the largest rate at which every percentile of the SLO is surely met."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from specbench.planning.simulator import Fleet, Outcome, Replica, simulate
from specbench.planning.simulator.from_known import fitted_replica
from specbench.planning.simulator.spread import USUAL
from specbench.planning.sizing.case import Case
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.services import largest_gamma
from specbench.planning.sizing.shifts import Shifts
from specbench.schedule import PREFIX

PRECISION = 0.02
"""Up to which factor a capacity is searched."""
_FULL = 0.95
"""Share of what a replica completes at most that it may be asked for: nearer, its queue grows for hours."""
_FLOOD = 2.0
"""Times what it can do: there is always work."""
_TOKEN_BUDGET = 8192
_STRIDE, _FAR = 1.5, 200.0


def largest_rate(meets: Callable[[float], bool], start: float, precision: float = PRECISION) -> float:
    """The largest rate that meets, to a factor; 0 where none from a two-hundredth of the start on does.

    From the start a bracket grows until it holds the edge, then it is halved in its logarithm.
    """
    good = bad = start
    if meets(start):
        while meets(bad := bad * _STRIDE):
            good = bad
    else:
        while not meets(good := good / _STRIDE):
            bad = good
            if good < start / _FAR:
                return 0.0
    while bad / good > 1 + precision:
        middle = math.sqrt(good * bad)
        good, bad = (middle, bad) if meets(middle) else (good, middle)
    return good


def calibrated(case: Case, requests: int, seed: int) -> Case:
    """With capacities as simulated for the best estimate; what else may be true moves them as it moves the closed form.

    requests: of each trial
    """
    closed = case.capacities(Shifts.none(case.fit))[:, 0]
    scale = [
        _capacity(Trial(replica_of(case, i), case.demand, requests, seed), case.slo, start) / start if start else 0.0
        for i, start in enumerate(closed.tolist())
    ]
    return replace(case, scale=(scale[0], scale[1]))


@dataclass(frozen=True)
class Trial:
    """One replica of a fleet behind a random router, which gets Poisson arrivals as the fleet does; a router that looks
    at queues does no worse. Every rate meets the same requests.
    """

    replica: Replica
    demand: Demand
    requests: int
    seed: int

    def at(self, rate: float) -> Outcome:
        traffic = self.demand.requests(rate, self.requests, self.seed)
        return simulate(Fleet(self.replica, 1, "random"), traffic, seed=self.seed)


def replica_of(case: Case, arm: int) -> Replica:
    """arm: 0 without speculation, 1 with it"""
    schedule = case.schedules[arm]
    return replace(
        fitted_replica(case.fit, case.arm, case.drafted_share, USUAL),
        policy=f"{PREFIX}{schedule}" if schedule else "none",
        max_batch_size=case.max_batch_size,
        token_budget=max(_TOKEN_BUDGET, case.max_batch_size * (largest_gamma(schedule) + 1)),
        kv_tokens=case.kv_tokens[arm],
    )


def meets(outcome: Outcome, slo: Mapping[str, float]) -> bool:
    """Whether even the upper end of each percentile's interval is within its bound."""
    for name, bound in slo.items():
        metric, percentile = name.split("_p")
        if not getattr(outcome, metric).quantile(int(percentile) / 100).high <= bound:
            return False
    return True


def _capacity(trial: Trial, slo: Mapping[str, float], start: float) -> float:
    """Without an SLO, what is completed while there is always work; start: a guess at it"""
    most = trial.at(_FLOOD * start).requests_per_s
    if not slo:
        return most
    return largest_rate(lambda rate: rate <= _FULL * most and meets(trial.at(rate), slo), min(start, _FULL * most))
