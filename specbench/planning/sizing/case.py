"""A fleet to be sized: everything that its number of replicas follows from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.cost import HOURS_PER_MONTH
from specbench.planning.fit import Fit
from specbench.planning.sizing.closed_form import capacity
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.services import Arm, Gammas, largest_gamma, services
from specbench.planning.sizing.shifts import Shifts

Floats = NDArray[np.float64]

_GRID = 40


@dataclass(frozen=True)
class Case:
    """slo: seconds by name, as in ttft_p95
    kv_tokens: of a replica, without and with the drafter beside the target;  gpus: of a replica
    price: per GPU-hour;  headroom: share of a replica's capacity that is kept free
    spares: replicas beyond what the traffic asks for
    scale: simulated capacity over the closed form's, without and with speculation
    """

    fit: Fit
    arm: Arm
    drafted_share: float
    schedule: Gammas
    demand: Demand
    slo: Mapping[str, float]
    kv_tokens: tuple[int, int]
    max_batch_size: int
    gpus: int
    price: float
    headroom: float
    spares: int = 0
    scale: tuple[float, float] = (1.0, 1.0)

    @property
    def schedules(self) -> tuple[Gammas, Gammas]:
        return None, self.schedule

    @cached_property
    def largest_batches(self) -> tuple[int, int]:
        """Requests in flight, without and with speculation."""
        plain, speculative = (
            largest_batch(tokens, self.demand, largest_gamma(schedule), self.max_batch_size)
            for tokens, schedule in zip(self.kv_tokens, self.schedules, strict=True)
        )
        return plain, speculative

    def capacities(self, shifts: Shifts) -> Floats:
        """Requests per second of a replica within the SLO [2, rows], without and with speculation."""
        rows = []
        for i, (schedule, largest) in enumerate(zip(self.schedules, self.largest_batches, strict=True)):
            if largest < 1:
                rows.append(np.zeros(len(shifts.theta)))
                continue
            service = services(
                self.fit, self.arm, self.drafted_share, schedule, self.demand, _sizes(largest), shifts.theta
            )
            closed = capacity(service, self.demand.output_tokens, self.slo, largest)
            rows.append(self.scale[i] * closed * np.exp(shifts.form[:, i]))
        return np.array(rows)

    def replicas(self, shifts: Shifts) -> Floats:
        """Whole ones [2, rows]; infinite where the SLO cannot be met."""
        return replicas_needed(self.demand.peak, self.capacities(shifts), self.headroom, self.spares)

    def saving(self, shifts: Shifts) -> Floats:
        """Rent per month that speculation saves [rows]; NaN where neither arm meets the SLO."""
        with np.errstate(invalid="ignore"):
            plain, speculative = self.replicas(shifts)
            return np.asarray((plain - speculative) * self.gpus * self.price * HOURS_PER_MONTH)


def largest_batch(kv_tokens: int, demand: Demand, gamma: int, max_batch_size: int) -> int:
    """Requests in flight that the cache and the engine's limit allow, of mean requests half way through; 0 where none
    fits.
    """
    context = demand.prompt_tokens + demand.output_tokens / 2
    return min(max_batch_size, int(kv_tokens / (context + gamma + 1)))


def replicas_needed(peak: float, capacity: Floats, headroom: float, spares: int = 0) -> Floats:
    """⌈peak / (capacity · (1 − headroom))⌉ + spares, infinite where a replica has no capacity."""
    with np.errstate(divide="ignore"):
        exact = peak / (capacity * (1 - headroom))
    # A quotient that is whole but for rounding is whole.
    return np.asarray(np.ceil(exact - 1e-9 * np.minimum(exact, 1e9)) + spares)


def _sizes(largest: int) -> Sequence[int]:
    """Batch sizes from 1 to the largest, closer at the small ones."""
    return [int(size) for size in np.unique(np.rint(np.geomspace(1, largest, _GRID)))]
