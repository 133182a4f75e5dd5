"""What a planned comparison takes, in pairs of launches, requests and time; from a noise that is told or measured."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median, stdev

from specbench.analysis.decision import LEAST_PAIRS
from specbench.analysis.degenerate import degeneracy
from specbench.analysis.power import (
    false_regression_rate,
    pairs_for_equivalence,
    pairs_for_regression,
    pairs_needed,
    pairs_until,
    requests_for_acceptance,
)
from specbench.analysis.precision import log_ratios_by_cell
from specbench.analysis.sequential import Looks
from specbench.store.measurement import Measurement


@dataclass(frozen=True, slots=True)
class SweepNeed:
    """Replicates (pairs of launches) that a sweep takes to see a change.

    effect: the change; a log ratio for `pairs` (.03 is 3 % either way), the share that `--until-ci` takes for the other
    pairs:  for the interval to leave 1 out, their number fixed beforehand; None: more than anyone measures
    pairs_until_ci: for `--until-ci` of the effect's size, which pays for looking after each
    """

    effect: float
    pairs: int | None
    pairs_until_ci: int | None


@dataclass(frozen=True, slots=True)
class GateNeed:
    """Pairs that a gate takes, never fewer than `decision.LEAST_PAIRS`. None: more than anyone measures.

    effect: a true regression;  margin: the loss that is none: shares of 1
    pairs:  to find it, their number fixed beforehand
    looks:  pairs at each look, the last one being enough to find it, when it looks early and then goes on
    pairs_equivalent: to call no change equivalent
    false_alarm_rate: of one comparison without a change, at `pairs`
    """

    effect: float
    margin: float
    pairs: int | None
    looks: tuple[int, ...] | None
    pairs_equivalent: int | None
    false_alarm_rate: float | None


def sweep_need(effect: float, noise: float, power: float) -> SweepNeed:
    """noise: s_d, standard deviation of a pair's log ratio"""
    return SweepNeed(effect, pairs_needed(effect, noise, power), pairs_until(math.log1p(effect), noise))


def gate_need(effect: float, margin: float, noise: float, power: float) -> GateNeed:
    """margin: the change that the gate lets pass, a share of 1"""
    change, bound = math.log1p(-effect), -math.log1p(-margin)
    pairs = pairs_for_regression(change, bound, noise, power)
    equivalent = pairs_for_equivalence(bound, noise, power)
    fixed = None if pairs is None else max(pairs, LEAST_PAIRS)
    return GateNeed(
        effect,
        margin,
        fixed,
        _looks(change, bound, noise, power),
        None if equivalent is None else max(equivalent, LEAST_PAIRS),
        None if fixed is None else false_regression_rate(bound, noise, fixed),
    )


def _looks(change: float, bound: float, noise: float, power: float) -> tuple[int, ...] | None:
    """The last look must find the change by itself, at the level that the earlier ones left it."""
    cap = pairs_for_regression(change, bound, noise, power)
    while cap is not None:
        looks = Looks.planned(LEAST_PAIRS, max(cap, LEAST_PAIRS))
        needed = pairs_for_regression(change, bound, noise, power, looks.level(looks.sizes[-1]))
        if needed is None or needed <= looks.sizes[-1]:
            return looks.sizes if needed else None
        cap = needed
    return None


@dataclass(frozen=True, slots=True)
class MeasuredNoise:
    """What a stored run says of a cell's noise.

    noise: s_d of its speedup, the standard deviation of the replicates' log ratios; a share of 1
    replicates: that it rests on
    acceptance_prompts: soundly answered, for a standard error of 1 % in its mean acceptance length; None if unreported
    """

    cell: str
    noise: float
    replicates: int
    acceptance_prompts: int | None


ACCEPTANCE_ERROR = 0.01


def measured_noise(measurements: Sequence[Measurement]) -> list[MeasuredNoise]:
    """Of every cell that was measured beside the baseline in two replicates or more."""
    return [
        MeasuredNoise(
            cell.id,
            stdev(ratios),
            len(ratios),
            _acceptance_prompts(m for m in measurements if m.cell == cell),
        )
        for cell, ratios in log_ratios_by_cell(measurements).items()
        if len(ratios) > 1
    ]


def pooled(noises: Iterable[MeasuredNoise]) -> float:
    """One s_d for all cells: the root of their mean square, weighted by degrees of freedom."""
    found = list(noises)
    squares = math.fsum((n.replicates - 1) * n.noise**2 for n in found)
    return math.sqrt(squares / sum(n.replicates - 1 for n in found))


def seconds_per_replicate(measurements: Iterable[Measurement]) -> float | None:
    """What its measurements took, and for each the median of the waits: for a server's start, for a warm-up alone.

    The median over replicates; None for a single measurement. A pause of an interrupted run is one wait among many, and
    so is what failed.
    """
    ordered = sorted((m for m in measurements if m.status == "ok"), key=lambda m: datetime.fromisoformat(m.started_at))
    waits: dict[bool, list[float]] = defaultdict(list)  # by whether a server was started in it
    for a, b in pairwise(ordered):
        apart = datetime.fromisoformat(b.started_at) - datetime.fromisoformat(a.started_at)
        waits[a.launch != b.launch].append(max(0.0, apart.total_seconds() - (a.finished - a.started)))
    if not waits:
        return None
    start, warm_up = (median(waits[kind] or [0.0]) for kind in (True, False))
    taken: dict[int, float] = defaultdict(float)
    launches: dict[int, set[str]] = defaultdict(set)
    for m in ordered:
        taken[m.replicate] += m.finished - m.started + (warm_up if m.launch in launches[m.replicate] else start)
        launches[m.replicate].add(m.launch)
    return median(taken.values())


def _acceptance_prompts(measurements: Iterable[Measurement]) -> int | None:
    # Requests of one prompt give the same tokens again: under greedy decoding they are one request.
    steps: dict[str, int] = defaultdict(int)
    tokens: dict[str, int] = defaultdict(int)
    for m in measurements:
        for t in m.traces:
            if t.error is None and degeneracy(t) is None and t.acceptance is not None and t.acceptance.steps:
                steps[t.prompt_id] += t.acceptance.steps
                tokens[t.prompt_id] += t.acceptance.steps + t.acceptance.accepted
    return requests_for_acceptance(list(steps.values()), list(tokens.values()), ACCEPTANCE_ERROR)
