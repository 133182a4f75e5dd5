"""Money of a plan: the arithmetic is that of `analysis.cost`, and rent falls by whole replicas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_case import CHAT, case, clockwork

from specbench.analysis.cost import Economics, payback_months
from specbench.claims.arithmetic import cost_per_million
from specbench.planning.prediction import Estimate
from specbench.planning.sizing.case import Case
from specbench.planning.sizing.decision import decide
from specbench.planning.sizing.money import Saving, around, per_million, saving
from specbench.planning.sizing.shifts import Shifts
from specbench.schedule import Schedule

EXACT = clockwork(CHAT, Schedule(((1, 3),)))
"""Nothing about it is uncertain."""


def shifts(of: Case) -> Shifts:
    return Shifts.none(of.fit)


def test_payback_is_that_of_analysis_cost() -> None:
    plain, speculative = (int(n) for n in EXACT.replicas(shifts(EXACT))[:, 0])
    found = saving(EXACT, shifts(EXACT), 40_000, 24)
    months = payback_months(plain, speculative, Economics(gpu_price=2.0, engineering_cost=40_000))
    assert found.payback == Estimate(months, months, months)
    assert found.per_month.value == pytest.approx((plain - speculative) * 2.0 * 730)
    assert found.p_replica == 1.0


def test_cost_per_million_is_the_claims_arithmetic_whole_gpus_rented_all_month() -> None:
    found = per_million(np.array([7.0, 8.0, math.inf]), replace(EXACT, gpus=4), 5000)
    assert found.value == pytest.approx(cost_per_million(2.0, 28, 5000))
    assert found.high == math.inf


def test_a_saving_that_frees_no_whole_replica_is_none() -> None:
    idle = replace(EXACT, demand=CHAT.times(1e-3))
    found = saving(idle, shifts(idle), 40_000, 24)
    assert (found.per_month.value, found.p_pays) == (0.0, 0.0)
    assert found.payback is not None
    assert found.payback.value == math.inf
    decision = decide(idle, found, True, 24)
    assert decision.recommendation == "DISABLE"
    assert "frees no whole replica" in decision.why


@settings(max_examples=40, deadline=None)
@given(st.floats(1, 1e6), st.floats(1, 10))
def test_from_its_volume_on_it_pays_whatever_the_rounding(cost: float, more: float) -> None:
    found = saving(EXACT, shifts(EXACT), cost, 24)
    enough = replace(EXACT, demand=CHAT.of_volume(found.from_tokens.value * more * (1 + 1e-6)))
    assert saving(enough, shifts(enough), cost, 24).per_month.value * 24 >= cost


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_an_interval_holds_the_best_estimate(draws: list[float]) -> None:
    found = around(np.array(draws))
    assert found.low <= found.value == draws[0] <= found.high


def test_only_an_arm_that_meets_the_slo_saves() -> None:
    """Plain decoding never meets it: any number of replicas is more than the other's."""
    of = case(slo={"tpot_p95": 0.008})
    plain, speculative = of.replicas(shifts(of))[:, 0]
    assert math.isinf(plain)
    assert math.isfinite(speculative)
    found = saving(of, shifts(of), 1000, 24)
    assert (found.p_pays, found.replicas.value) == (1.0, math.inf)
    assert found.payback is not None
    assert found.payback.value == 0.0


@pytest.mark.parametrize(
    ("p_pays", "recommendation", "code"),
    [(0.95, "ENABLE", 0), (0.5, "NOT ENOUGH EVIDENCE", 4), (0.05, "DISABLE", 3)],
)
def test_the_verdict_follows_the_probability_that_it_pays(p_pays: float, recommendation: str, code: int) -> None:
    one = Estimate(1.0, 0.0, 2.0)
    found = decide(EXACT, Saving(one, one, one, one, 0.9, p_pays), True, 24)
    assert (found.recommendation, found.exit_code) == (recommendation, code)


def test_it_is_enabled_up_to_the_batch_size_at_which_its_schedule_ends() -> None:
    one = Estimate(1.0, 1.0, 1.0)
    sure = Saving(one, one, None, one, 1.0, 1.0)
    of = replace(EXACT, schedule=Schedule(((1, 4), (9, 2), (33, 0))))
    assert decide(of, sure, False, 24).recommendation == "ENABLE UP TO BATCH 32"
    assert decide(of, sure, False, 24).exit_code == 0
    off = decide(replace(EXACT, schedule=None), sure, False, 24)
    assert off.recommendation == "DISABLE"
