"""Capacities from the simulator: found by bisection, and right where arithmetic knows them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_case import TICK, case, clockwork

from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.shifts import Shifts
from specbench.planning.sizing.simulated import PRECISION, Trial, calibrated, largest_rate, meets, replica_of
from specbench.schedule import Schedule

SHORT = Demand(1.0, 10.0, np.full(1, 50, np.int32), np.full(1, 21, np.int32), "short")
QUICK = {"requests": 2000, "seed": 1}


@given(st.floats(0.01, 100), st.floats(0.01, 100))
def test_bisection_ends_at_the_edge_from_below(edge: float, start: float) -> None:
    asked: list[float] = []

    def below(rate: float) -> bool:
        asked.append(rate)
        return rate <= edge

    found = largest_rate(below, start)
    if start / edge > 150:
        return  # so far off that it may give up
    assert found <= edge <= found * (1 + PRECISION)
    assert len(asked) < 40


def test_what_is_never_met_has_no_rate() -> None:
    assert largest_rate(lambda rate: False, 10.0) == 0.0


def test_without_an_slo_a_replica_of_constant_steps_completes_what_arithmetic_says() -> None:
    """One at a time, 21 passes of 10 ms each; with three drafted tokens that are always kept, six."""
    of = calibrated(clockwork(SHORT, Schedule(((1, 3),)), max_batch_size=1), **QUICK)
    plain, speculative = of.capacities(Shifts.none(of.fit))[:, 0]
    assert plain == pytest.approx(1 / (21 * TICK), rel=0.01)
    assert speculative == pytest.approx(1 / (6 * TICK), rel=0.01)


def test_a_bound_on_waiting_leaves_what_a_queue_of_its_kind_allows() -> None:
    """One at a time in constant time S is M/D/1, whose mean wait is ρS / 2(1 − ρ) (Pollaczek and Khinchine)."""
    service = 21 * TICK
    base = clockwork(SHORT, None, max_batch_size=1)
    trial = Trial(replica_of(base, 0), SHORT, 6_000, 1)
    outcome = trial.at(0.5 / service)
    assert outcome.wait.mean().value == pytest.approx(0.5 * service / 2 / 0.5, rel=0.1)
    bound = outcome.ttft.quantile(0.95).high
    of = calibrated(replace(base, slo={"ttft_p95": bound}), 6_000, 1)
    capacity = of.capacities(Shifts.none(of.fit))[0, 0]
    assert capacity == pytest.approx(0.5 / service, rel=0.03)
    assert meets(trial.at(capacity), of.slo)


def test_a_tighter_bound_leaves_less_and_speculation_leaves_more() -> None:
    loose, tight = (
        calibrated(case(slo={"tpot_p95": bound}, max_batch_size=64), **QUICK).capacities(Shifts.none(case().fit))[:, 0]
        for bound in (0.04, 0.02)
    )
    assert (tight < loose).all()
    assert loose[1] > loose[0]
    assert tight[1] > tight[0]


def test_what_may_be_true_moves_the_simulated_capacity_as_it_moves_the_closed_form() -> None:
    """Engines at both ends of what may be reached of the memory's rate, simulated by themselves."""
    of = calibrated(case(slo={"tpot_p95": 0.025}, max_batch_size=64), **QUICK)
    shifts = Shifts.along(of.fit, ("memory",), (-1.645, 1.645))
    predicted = of.capacities(shifts)
    for i, shift in enumerate(shifts.theta):
        there = replace(of, fit=replace(of.fit, theta=of.fit.theta + shift), scale=(1.0, 1.0))
        simulated = calibrated(there, **QUICK).capacities(Shifts.none(of.fit))[:, 0]
        assert predicted[:, i] == pytest.approx(simulated, rel=0.15)
    assert predicted[0, 1] > 1.2 * predicted[0, 0]
