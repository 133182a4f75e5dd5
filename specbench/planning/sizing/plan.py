"""A whole plan: a fleet without and with speculation, what the difference is worth, and what it hangs on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from specbench.analysis.cost import HOURS_PER_MONTH
from specbench.errors import SpecbenchError
from specbench.planning.prediction import Estimate
from specbench.planning.simulator import Outcome
from specbench.planning.sizing.case import Case, largest_batch
from specbench.planning.sizing.decision import Decision, decide
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.known import USUAL_BATCH, Known
from specbench.planning.sizing.money import Saving, around, per_million, saving
from specbench.planning.sizing.next_cells import NextCell, next_cells
from specbench.planning.sizing.sensitivity import Swing, swings
from specbench.planning.sizing.services import best_schedule, largest_gamma, services
from specbench.planning.sizing.shifts import Shifts
from specbench.planning.sizing.simulated import Trial, calibrated, replica_of
from specbench.planning.sizing.site import Site
from specbench.planning.sizing.thumb import Thumb, thumbs
from specbench.planning.sizing.transfer import moved
from specbench.schedule import Schedule

_DRAWS = 2000

Report = Callable[[str], None]


@dataclass(frozen=True)
class Terms:
    """What is asked for besides the traffic. slo: seconds by name, as in ttft_p95

    horizon_months: within which the work must have paid;  requests: of each simulated trial
    """

    slo: Mapping[str, float]
    headroom: float
    spares: int
    max_batch_size: int | None
    engineering_cost: float | None
    horizon_months: float
    currency: str
    requests: int
    seed: int

    @property
    def needed_per_month(self) -> float:
        """Saving that pays for the work within the horizon."""
        return (self.engineering_cost or 0.0) / self.horizon_months


@dataclass(frozen=True)
class ArmSize:
    """A fleet of one arm.

    capacity: requests per second of a replica within the SLO
    replicas, gpus: whole ones, infinite where none are enough
    per_million_output, per_million: rent over output tokens alone, and over prompt and output tokens alike
    largest_batch: requests in flight that the cache and the engine's limit allow
    at_peak: a replica at the busiest time, as simulated; None where the SLO cannot be met
    """

    method: str
    capacity: Estimate
    replicas: Estimate
    gpus: Estimate
    rent: Estimate
    per_million_output: Estimate
    per_million: Estimate
    kv_tokens: int
    largest_batch: int
    at_peak: Outcome | None


@dataclass(frozen=True)
class Sized:
    """A fleet at a site. is_measured: whether a run was measured on this hardware with these weights"""

    site: Site
    is_measured: bool
    case: Case
    plain: ArmSize
    speculative: ArmSize
    saving: Saving
    decision: Decision


@dataclass(frozen=True)
class Refused:
    """A site that does not serve."""

    site: Site
    why: str


@dataclass(frozen=True)
class Plan:
    """what_ifs: other sites, after the plan's own"""

    known: Known
    demand: Demand
    terms: Terms
    sized: Sized
    what_ifs: tuple[Sized | Refused, ...]
    swings: tuple[Swing, ...]
    next_cells: tuple[NextCell, ...]
    thumbs: tuple[Thumb, ...]


def plan(
    known: Known, site: Site, others: Iterable[Site], demand: Demand, terms: Terms, report: Report = lambda _: None
) -> Plan:
    """report: gets a sentence before each site. Raises SpecbenchError where neither arm meets the SLO."""
    report(f"Sizing {site.name}.")
    sized = size(known, site, demand, terms)
    what_ifs: list[Sized | Refused] = []
    for other in others:
        report(f"What if: {other.name}.")
        try:
            what_ifs.append(size(known, other, demand, terms))
        except SpecbenchError as error:
            what_ifs.append(Refused(other, str(error)))
    busy = sized.plain.at_peak or sized.speculative.at_peak
    assert busy is not None
    batch = max(1, round(busy.mean_batch))
    return Plan(
        known=known,
        demand=demand,
        terms=terms,
        sized=sized,
        what_ifs=tuple(what_ifs),
        swings=swings(sized.case, site.prices, terms.needed_per_month, terms.currency),
        next_cells=next_cells(sized.case, known.gammas, batch),
        thumbs=_thumbs(sized, busy),
    )


def size(known: Known, site: Site, demand: Demand, terms: Terms) -> Sized:
    """Raises SpecbenchError where the model does not fit, or neither arm meets the SLO."""
    case = calibrated(_case(known, site, demand, terms), terms.requests, terms.seed)
    shifts = Shifts.drawn(case.fit, known.form, _DRAWS, terms.seed)
    plain, speculative = _arms(case, shifts, terms)
    if plain.at_peak is None and speculative.at_peak is None:
        raise SpecbenchError(
            f"{site.name} does not meet {_words(terms.slo)}, however little comes: more GPUs to a replica "
            "(--gpu-count), faster ones, or a looser --slo."
        )
    found = saving(case, shifts, terms.engineering_cost, terms.horizon_months)
    decision = decide(case, found, terms.engineering_cost is not None, terms.horizon_months)
    return Sized(site, site.is_measured(known), case, plain, speculative, found, decision)


def _case(known: Known, site: Site, demand: Demand, terms: Terms) -> Case:
    fit, kv_tokens = moved(known.fit, site.shape, site.machine), site.kv_tokens(known)
    measured_up_to = known.max_batch_size if site.is_measured(known) else USUAL_BATCH
    max_batch_size = terms.max_batch_size or measured_up_to
    largest = largest_batch(kv_tokens[0], demand, 0, max_batch_size)
    if largest < 1:
        raise SpecbenchError(
            f"the KV cache of {site.name} ({kv_tokens[0]:,} tokens) does not hold one request: more GPUs to a replica "
            "(--gpu-count)."
        )
    return Case(
        fit=fit,
        arm=known.arm,
        drafted_share=known.drafted_share,
        schedule=best_schedule(fit.model, fit.theta, known.arm, known.drafted_share, known.gammas, demand, largest),
        demand=demand,
        slo=terms.slo,
        kv_tokens=kv_tokens,
        max_batch_size=max_batch_size,
        gpus=site.machine.count,
        price=site.price,
        headroom=terms.headroom,
        spares=terms.spares,
    )


def _arms(case: Case, shifts: Shifts, terms: Terms) -> tuple[ArmSize, ArmSize]:
    capacities, replicas = case.capacities(shifts), case.replicas(shifts)
    demand = case.demand
    output = demand.mean * demand.output_tokens
    both = demand.mean * (demand.prompt_tokens + demand.output_tokens)

    def arm(i: int) -> ArmSize:
        needed = replicas[i, 0]
        at_peak = None
        if math.isfinite(needed):
            trial = Trial(replica_of(case, i), demand, terms.requests, terms.seed)
            at_peak = trial.at(demand.peak / (needed - case.spares))
        gpus = replicas[i] * case.gpus
        return ArmSize(
            method=case.arm[1] if i else "none",
            capacity=around(capacities[i]),
            replicas=around(replicas[i]),
            gpus=around(gpus),
            rent=around(gpus * case.price * HOURS_PER_MONTH),
            per_million_output=per_million(replicas[i], case, output),
            per_million=per_million(replicas[i], case, both),
            kv_tokens=case.kv_tokens[i],
            largest_batch=case.largest_batches[i],
            at_peak=at_peak,
        )

    return arm(0), arm(1)


def _thumbs(sized: Sized, busy: Outcome) -> tuple[Thumb, ...]:
    case = sized.case
    gamma = max(1, largest_gamma(case.schedule))
    best = Shifts.none(case.fit).theta
    both = [
        services(case.fit, case.arm, case.drafted_share, schedule, case.demand, [1], best)
        for schedule in (None, Schedule(((1, gamma),)))
    ]
    alone, drafting = ((s.length / s.step).item() for s in both)
    accepted = (both[1].length.item() - 1) / (gamma * case.drafted_share)
    return thumbs(accepted, busy.mean_batch, busy.utilisation, drafting / alone, sized.decision.recommendation)


def _words(slo: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={1e3 * bound:g}ms" for name, bound in slo.items())
