"""Fleets: whole replicas, by hand and however the inputs move."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_case import ARM, CHAT, TICK, case, clockwork

from specbench.planning.sizing.case import Case, largest_batch, replicas_needed
from specbench.planning.sizing.closed_form import capacity, load
from specbench.planning.sizing.demand import Demand
from specbench.planning.sizing.services import Service, best_schedule, gamma_at
from specbench.planning.sizing.shifts import Shifts
from specbench.schedule import Schedule


def best(of: Case) -> tuple[float, float]:
    plain, speculative = of.replicas(Shifts.none(of.fit))[:, 0]
    return float(plain), float(speculative)


@pytest.mark.parametrize(
    ("peak", "capacity", "headroom", "spares", "replicas"),
    [
        (100, 10, 0.2, 0, 13),  # 12.5
        (80, 10, 0.2, 0, 10),  # whole
        (0.3, 0.1, 0.0, 0, 3),  # whole but for 0.3 / 0.1 = 2.9999999999999996
        (0.1 * 3, 0.1, 0.0, 2, 5),  # whole but for 0.1 * 3 = 0.30000000000000004
        (1, 0, 0.2, 0, math.inf),
    ],
)
def test_replicas_are_whole(peak: float, capacity: float, headroom: float, spares: int, replicas: float) -> None:
    assert replicas_needed(peak, np.array([capacity]), headroom, spares) == [replicas]


def test_a_replica_of_constant_steps_serves_what_arithmetic_says() -> None:
    """101 output tokens: the prefill and 100 steps of 10 ms; 8 at once, each of which waits for 8 prefills."""
    demand = Demand(1.0, 10.0, np.full(1, 50, np.int32), np.full(1, 101, np.int32), "")
    of = clockwork(demand, Schedule(((1, 3),)), max_batch_size=8)
    plain, speculative = of.capacities(Shifts.none(of.fit))[:, 0]
    assert plain == pytest.approx(8 / (8 * TICK + 100 * TICK), rel=1e-6)
    assert speculative == pytest.approx(8 / (8 * TICK + 25 * TICK), rel=1e-6)  # four tokens a step
    assert best(of) == (math.ceil(10 / (plain * 0.8)), math.ceil(10 / (speculative * 0.8)))


def test_a_bound_on_tpot_ends_where_the_step_is_that_long() -> None:
    """Steps of 10 + B ms and no prefill: a TPOT of 30 ms at 2 tokens a step is 50 in flight."""
    sizes = np.arange(1.0, 101.0)
    service = Service(sizes, (0.01 + sizes / 1000)[None], np.full((1, 100), 2.0), np.full((1, 1), 1e-12))
    found = capacity(service, 101, {"tpot_p95": 0.030}, 100)
    assert found.item() == pytest.approx(50 / (50 * 0.060), rel=1e-3)
    assert capacity(service, 101, {"tpot_p95": 0.030}, 20).item() == pytest.approx(20 / (50 * 0.030), rel=1e-3)
    assert capacity(service, 101, {"tpot_p95": 0.005}, 100).item() == 0.0


@given(st.floats(0.001, 0.1), st.floats(1, 5), st.floats(0.001, 1), st.floats(2, 500))
def test_requests_in_flight_are_rate_times_time_spent(
    step: float, length: float, prefill: float, output: float
) -> None:
    """Little's law, at any point of the closed form."""
    sizes = np.array([1.0, 4.0, 64.0])
    service = Service(sizes, np.full((1, 3), step), np.full((1, 3), length), np.full((1, 1), prefill))
    found = load(service, output)
    spent = found.tpot * max(output - 1, 1) + prefill
    assert (found.rate * spent)[0, 1:] == pytest.approx(sizes)


def test_cache_and_engine_limit_what_is_in_flight() -> None:
    assert largest_batch(10_000, CHAT, 0, 256) == 10  # 800 + 250 / 2 tokens, and one to come
    assert largest_batch(10_000, CHAT, 100, 256) == 9
    assert largest_batch(10**7, CHAT, 5, 256) == 256
    assert case(kv_tokens=(500, 10**7)).capacities(Shifts.none(case().fit))[0] == [0.0]


@settings(max_examples=25, deadline=None)
@given(st.floats(1.0, 20.0))
def test_more_traffic_never_needs_fewer(factor: float) -> None:
    few, many = best(case()), best(case(demand=CHAT.times(factor)))
    assert many[0] >= few[0]
    assert many[1] >= few[1]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(["ttft_p95", "tpot_p95", "e2e_p99"]), st.floats(0.02, 20), st.floats(0.2, 1))
def test_a_tighter_bound_never_needs_fewer(name: str, bound: float, factor: float) -> None:
    loose, tight = best(case(slo={name: bound})), best(case(slo={name: bound * factor}))
    assert tight[0] >= loose[0]
    assert tight[1] >= loose[1]


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 0.94), st.floats(0, 0.05))
def test_more_acceptance_never_needs_more(chance: float, more: float) -> None:
    """With the schedule that is best for either."""
    assert best(case((chance + more,)))[1] <= best(case((chance,)))[1]


def test_a_schedule_drafts_less_the_more_run_and_nothing_where_drafts_fail() -> None:
    of = case((0.75,))
    gammas = [gamma_at(of.schedule, size) for size in (1, 8, 64, 256)]
    assert gammas == sorted(gammas, reverse=True)
    assert gammas[0] >= 3
    hopeless = case((0.01,))
    assert hopeless.schedule is None
    assert best(hopeless)[0] == best(hopeless)[1]


def test_the_schedule_is_the_best_of_its_gammas_at_every_batch_size() -> None:
    of = case()
    for size in (1, 16, 128):
        rates = {
            gamma: replace(
                of, schedule=Schedule(((1, gamma),)) if gamma else None, max_batch_size=size, slo={}
            ).capacities(Shifts.none(of.fit))[1, 0]
            for gamma in range(6)
        }
        best_of_all = best_schedule(of.fit.model, of.fit.theta, ARM, 1.0, range(1, 6), CHAT, size)
        assert max(rates, key=lambda gamma: rates[gamma]) == gamma_at(best_of_all, size)


def test_what_arms_share_cancels_in_their_ratio() -> None:
    """Parameters that are hardly known: the arms' capacities each vary by much more than their ratio."""
    of = case(slo={})
    plain, speculative = np.log(of.capacities(Shifts.drawn(of.fit, 0.03, 400, seed=1)))
    assert np.std(speculative - plain) < 0.5 * np.std(plain)


def test_the_first_draw_is_the_best_estimate_and_the_others_spread_as_the_fit_says() -> None:
    fit = case().fit
    shifts = Shifts.drawn(fit, 0.05, 4000, seed=2)
    assert not shifts.theta[0].any()
    assert not shifts.form[0].any()
    assert shifts.theta.std(axis=0) == pytest.approx(np.sqrt(np.diag(fit.covariance)), rel=0.05, abs=1e-6)
    assert shifts.form.std() == pytest.approx(0.05, rel=0.05)


def test_a_walk_along_one_parameter_takes_with_it_what_cells_cannot_tell_from_it() -> None:
    fit = case().fit
    covariance = np.eye(len(fit.theta))
    covariance[0, 1] = covariance[1, 0] = -0.9
    walk = Shifts.along(replace(fit, covariance=covariance), (fit.model.names[0],), (-1.0, 2.0))
    assert walk.theta[:, :2] == pytest.approx(np.array([[-1.0, 0.9], [2.0, -1.8]]))
    assert not walk.theta[:, 2:].any()
