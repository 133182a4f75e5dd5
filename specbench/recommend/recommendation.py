"""The recommendation: everything that a run's measurements say of what to switch on, in one object."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from specbench.analysis.json_values import to_json_value
from specbench.analysis.summary import RunSummary, summarize
from specbench.analysis.verdict import Decision, decide
from specbench.errors import SpecbenchError
from specbench.recommend.arrivals import AtRate, at_rate
from specbench.recommend.by_batch import BestAt, best_by_batch
from specbench.recommend.concurrency import Concurrency, evenly, gain_over
from specbench.recommend.curves import GammaByBatch, TurnOff, constant_gamma, gamma_by_batch, loses, turn_off_above
from specbench.recommend.draws import Range
from specbench.recommend.evidence import Evidence, Excluded, gather
from specbench.recommend.flags import Paste, paste
from specbench.recommend.measured_rates import MeasuredRate, measured_rates
from specbench.recommend.memory import MemoryCost, memory_cost
from specbench.recommend.thumb_rules import RuleCheck, check_rules
from specbench.speculation import DRAFTERLESS, Speculation
from specbench.store.measurement import Measurement
from specbench.store.run import RunStore


@dataclass(frozen=True, slots=True)
class MethodGain:
    """A method with its gamma by batch size, over the user's concurrency.

    gain:   how many times as fast the same work is done;  p_best: probability that no other method, nor none, is faster
    """

    method: str
    schedule: str
    gain: Range
    p_best: float


@dataclass(frozen=True, slots=True)
class FixedGain:
    """One gamma at every batch size.

    gain: None where the concurrency goes beyond what was measured, or to a batch size where this gamma is no evidence
    limited_gain: with the engine limited to the largest measured batch size, as the pasted command limits it
    """

    method: str
    gamma: int
    gain: Range | None
    limited_gain: Range | None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to do, and what it rests on.

    decision: the sweep's own verdict, on one gamma that cannot change with the batch size
    method, schedule, gain: what to switch on; None where nothing is
    loses_here: whether nothing gains at any batch size of the concurrency, as far as each is among the measured ones
    free_choice: the gain if the engine could also change the method by batch size
    fixed:    the best single gamma of that method
    """

    run: str
    simulated: bool
    machine: str
    workloads: tuple[str, ...]
    decision: Decision
    best_by_batch: tuple[BestAt, ...]
    methods: tuple[MethodGain, ...]
    method: str | None
    schedule: str | None
    gain: Range | None
    loses_here: bool
    fixed: FixedGain | None
    free_choice: Range | None
    turn_off_above: TurnOff | None
    concurrency: Concurrency
    share_beyond_measured: float
    at_rates: tuple[AtRate, ...]
    measured_rates: tuple[MeasuredRate, ...]
    memory: MemoryCost | None
    thumb_rules: tuple[RuleCheck, ...]
    excluded: tuple[Excluded, ...]
    caveats: tuple[str, ...]
    paste: Paste | None

    @property
    def is_decided(self) -> bool:
        """Whether there is enough evidence: for something to switch on, or that nothing is worth it."""
        return self.method is not None or self.loses_here or self.decision.recommendation == "DISABLE"

    def to_json(self) -> dict[str, Any]:
        """One object of JSON values; docs/recommend.md has its keys."""
        return {key: to_json_value(value) for key, value in asdict(self).items()}


def recommend(
    store: RunStore,
    *,
    workload: str | None = None,
    concurrency: Concurrency | None = None,
    rates: Sequence[float] = (),
    open_loop: RunStore | None = None,
) -> Recommendation:
    """What to switch on, from a closed-loop run.

    workload: one of the run's; all of them together by default, as if one server served them in equal parts
    concurrency: how many requests the user's server has at once; each measured batch size for the same time by default
    rates:    requests per second to predict for;  open_loop: a run that measured some, shown beside the prediction
    Raises SpecbenchError for a run without a closed loop.
    """
    measurements, summary = _of(store, workload)
    cells = [c for c in summary.cells if workload in (None, c.workload)]
    evidence = gather(cells, measurements)
    if not evidence.batch_sizes:
        raise SpecbenchError(_without_closed_loop(store, summary))
    concurrency = concurrency or evenly(evidence.batch_sizes)
    methods = list(dict.fromkeys(method for method, _ in evidence.arms))
    found = [method for name in methods if (method := gamma_by_batch(evidence, name)).is_on]
    gains = _method_gains(found, concurrency)
    best = max(gains, key=lambda g: g.gain.value or 0, default=None)
    if best is not None and (best.gain.value or 0) <= 1:  # on nowhere that the concurrency goes
        best = None
    chosen = next((m for m in found if best is not None and m.method == best.method), None)
    fixed = None if chosen is None else _fixed(evidence, chosen, concurrency)
    open_cells = _open_cells(open_loop, evidence)
    drafter = _drafter(store.manifest["config"], chosen)
    return Recommendation(
        run=summary.run,
        simulated=summary.is_simulated,
        machine=summary.machine,
        workloads=evidence.workloads,
        decision=decide((c for c in cells if c.has_one_gamma), summary.early_stop.largest if summary.early_stop else 0),
        best_by_batch=best_by_batch(evidence),
        methods=tuple(gains),
        method=None if chosen is None else chosen.method,
        schedule=None if chosen is None else str(chosen.schedule),
        gain=None if best is None else best.gain,
        loses_here=chosen is None and all(loses(evidence, size) for size in concurrency.shares),
        fixed=fixed,
        free_choice=None if chosen is None else gain_over(_free(found, max(evidence.batch_sizes)), concurrency)[0],
        turn_off_above=turn_off_above(evidence, chosen.method if chosen else _nearest(evidence)),
        concurrency=concurrency,
        share_beyond_measured=concurrency.beyond(max(evidence.batch_sizes)),
        at_rates=tuple(at_rate(evidence, chosen, rate) for rate in rates) if chosen else (),
        measured_rates=open_cells,
        memory=None
        if chosen is None
        else memory_cost(chosen.method, chosen.schedule.largest, cells, measurements, store.manifest["config"]),
        thumb_rules=check_rules(cells, measurements),
        excluded=evidence.excluded,
        caveats=(*_caveats(evidence, summary), *(_unpredicted(rates) if chosen is None else ())),
        paste=None
        if chosen is None or fixed is None
        else paste(
            _engine(store),
            Speculation.scheduled(chosen.method, chosen.schedule, drafter),
            Speculation(fixed.method, fixed.gamma, drafter),
            fixed.limited_gain,
            store.manifest["config"],
            max(evidence.batch_sizes),
        ),
    )


def _unpredicted(rates: Sequence[float]) -> Iterator[str]:
    if rates:
        written = ", ".join(f"{rate:g}" for rate in rates)
        yield f"nothing is predicted at {written} requests/s: with nothing switched on there is nothing to compare"


def _of(store: RunStore, workload: str | None) -> tuple[list[Measurement], RunSummary]:
    measurements = store.measurements()
    names = list(dict.fromkeys(m.cell.workload for m in measurements))
    if workload is not None and workload not in names:
        raise SpecbenchError(f"{store.path} has no workload {workload!r}. It has: {', '.join(names) or 'none'}.")
    kept = [m for m in measurements if workload in (None, m.cell.workload)]
    return kept, summarize(store, kept)


def _without_closed_loop(store: RunStore, summary: RunSummary) -> str:
    if any(c.is_open_loop for c in summary.cells):
        return (
            f"{store.path} is an open loop: it says how long requests take at its rates, not what a batch size gains. "
            f"Give a closed-loop run, with this one beside it: specbench recommend RUN --open-loop {store.path}."
        )
    return f"{store.path} has no measurement of plain decoding to compare with. Go on with: specbench sweep --resume."


def _method_gains(found: Sequence[GammaByBatch], concurrency: Concurrency) -> list[MethodGain]:
    gains = [gain_over(method, concurrency) for method in found]
    if not gains:
        return []
    draws = np.stack([np.ones_like(gains[0][1]), *(drawn for _, drawn in gains)])
    wins = np.bincount(draws.argmax(axis=0), minlength=len(draws)) / draws.shape[1]
    return [
        MethodGain(method.method, str(method.schedule), gain, float(won))
        for method, (gain, _), won in zip(found, gains, wins[1:], strict=True)
    ]


def _fixed(evidence: Evidence, chosen: GammaByBatch, concurrency: Concurrency) -> FixedGain:
    """The best gamma of the method if it were the only one; where none is evidence at all batch sizes of the
    concurrency, the one with the largest sum over those that all gammas were measured at.
    """
    largest = max(evidence.batch_sizes)
    limited = concurrency.limited_to(largest)
    arms = {gamma: by_batch for (method, gamma), by_batch in evidence.arms.items() if method == chosen.method}
    found = {gamma: constant_gamma(evidence, chosen.method, gamma, limited.shares) for gamma in arms}
    gains = {gamma: gain_over(constant, limited)[0] for gamma, constant in found.items() if constant is not None}
    if not gains:
        common = set.intersection(*(set(by_batch) for by_batch in arms.values()))
        sums = {gamma: math.fsum(by_batch[size].log_speedup for size in common) for gamma, by_batch in arms.items()}
        return FixedGain(chosen.method, max(sums, key=lambda g: sums[g]), None, None)
    gamma = max(gains, key=lambda g: gains[g].value or 0)
    return FixedGain(chosen.method, gamma, None if concurrency.beyond(largest) else gains[gamma], gains[gamma])


def _free(found: Sequence[GammaByBatch], largest: int) -> GammaByBatch:
    """As if the engine could take the best method at each batch size."""
    best = {size: max(found, key=lambda m: m.at(size)[0]) for size in range(1, largest + 1)}
    return GammaByBatch("any", {s: m.gammas[s] for s, m in best.items()}, {s: m.at(s) for s, m in best.items()})


def _nearest(evidence: Evidence) -> str:
    """Where nothing is switched on, the method that comes nearest to it."""
    sums = {arm: math.fsum(c.log_speedup for c in by_batch.values()) for arm, by_batch in evidence.arms.items()}
    return max(sums, key=lambda arm: sums[arm])[0] if sums else ""


def _open_cells(open_loop: RunStore | None, evidence: Evidence) -> tuple[MeasuredRate, ...]:
    if open_loop is None:
        return ()
    measurements = open_loop.measurements()
    found = measured_rates(summarize(open_loop, measurements).cells, measurements, evidence)
    if not found:
        raise SpecbenchError(
            f"{open_loop.path} has no pair of arms under requests at a rate. Measure one: specbench sweep "
            "--request-rate 2,4 with the same workload, method and gamma."
        )
    return found


def _engine(store: RunStore) -> str:
    """Whose flags to write: of a simulated run the engine whose format it speaks, of an attached one what it says."""
    backend = str(store.manifest["config"].get("backend"))
    told = next((str(record.get("engine", "")) for record in store.launches().values()), "")
    if backend in ("simulated", "attach"):
        return told.removeprefix("SIMULATED ").lower()
    return backend


def _drafter(config: Mapping[str, Any], chosen: GammaByBatch | None) -> str | None:
    """The weights as the run was told; a word to fill in where it measured a server that was running already."""
    if chosen is None:
        return None
    unknown = None if chosen.method in DRAFTERLESS else "DRAFTER"
    given: str | None = (config.get("drafter") or {}).get(chosen.method, unknown)
    return given


def _caveats(evidence: Evidence, summary: RunSummary) -> list[str]:
    cells = [c for by_batch in evidence.arms.values() for candidate in by_batch.values() for c in candidate.cells]
    said = []
    if any((c.speedup_ci_basis or "").startswith("within one launch") for c in cells):
        said.append("one launch per arm: how launches differ is in no interval and no P(best) here (--replicates 5)")
    elif any(c.replicates < 3 for c in cells):
        said.append("two launches per arm: intervals are wide and P(best) is vague (--replicates 5)")
    if any(c.equivalence == "NEAR_TIE" for c in cells):
        said.append("outputs of some cells differ from plain decoding's where two tokens were as good as tied")
    if any(c.equivalence == "NOT_CHECKED" for c in cells):
        said.append("outputs were not compared with plain decoding's (specbench verify)")
    if len(evidence.workloads) > 1:
        said.append(f"{' and '.join(evidence.workloads)} count the same; --workload NAME is for one of them alone")
    if len(evidence.arms) > 1:
        said.append(
            "the best of several arms is chosen, and its gain told, by the same measurements, so that gains lean "
            "upward (--measure-schedule measures anew)"
        )
    if min(evidence.batch_sizes) > 1:
        said.append(f"below batch size {min(evidence.batch_sizes)} nothing was measured, so it is off there")
    return said
