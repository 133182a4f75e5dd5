"""Money, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.cost import (
    Economics,
    cost_per_million_output_tokens,
    gpus_needed,
    payback_months,
    saving_percent,
)
from specbench.errors import SpecbenchError

H200 = Economics(gpu_price=3.10)


@pytest.mark.parametrize(("tokens_per_s", "cost"), [(38, 22.66), (91, 9.46), (420, 2.05), (672, 1.28)])
def test_published_throughputs_cost_what_arithmetic_says(tokens_per_s: float, cost: float) -> None:
    assert cost_per_million_output_tokens(tokens_per_s, H200) == pytest.approx(cost, abs=0.005)


def test_four_gpus_cost_four_times_as_much() -> None:
    four = Economics(gpu_price=3.10, gpu_count=4)
    assert cost_per_million_output_tokens(120.75, four) == pytest.approx(28.5, abs=0.05)


@given(st.floats(0.1, 1e5), st.floats(0.2, 8))
def test_the_saving_is_what_the_two_costs_say(tokens_per_s: float, speedup: float) -> None:
    before, after = (cost_per_million_output_tokens(x, H200) for x in (tokens_per_s, tokens_per_s * speedup))
    assert before is not None
    assert after is not None
    assert saving_percent(speedup) == pytest.approx((1 - after / before) * 100, abs=1e-6)


def test_without_a_price_or_a_rate_there_is_no_cost() -> None:
    assert cost_per_million_output_tokens(100, Economics()) is None
    assert cost_per_million_output_tokens(None, H200) is None
    assert saving_percent(None) is None


def test_ten_billion_tokens_a_month_are_whole_servers() -> None:
    volume = Economics(gpu_price=3.10, tokens_per_month=10e9)
    assert gpus_needed(38, volume) == 101
    assert gpus_needed(420, volume) == 10
    assert gpus_needed(420, Economics(gpu_count=4, tokens_per_month=10e9)) == 40
    assert gpus_needed(420, Economics()) is None


def test_payback_counts_whole_gpus_only() -> None:
    money = Economics(gpu_price=2.0, engineering_cost=14_600)
    assert payback_months(12, 7, money) == pytest.approx(14_600 / (730 * 2 * 5))
    assert payback_months(7, 7, money) is None
    assert payback_months(7, 8, money) is None
    assert payback_months(12, 7, Economics(gpu_price=2.0)) is None


def test_a_configuration_without_money_keeps_the_defaults() -> None:
    assert Economics.from_config({"gpu_price": None, "seed": 0}) == Economics()
    assert Economics.from_config({"gpu_price": 2, "currency": "BRL"}) == Economics(gpu_price=2, currency="BRL")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"gpu_price": 0.0}, "--gpu-price"),
        ({"tokens_per_month": float("nan")}, "--tokens-per-month"),
        ({"gpu_count": -1}, "--gpu-count"),
        ({"gpu_count": 10**400}, "--gpu-count: expected a number above 0, 1,000,000 at most"),
        ({"gpu_price": 1e300}, "--gpu-price: expected a number above 0, 1,000,000 at most"),
        ({"gpu_price": 2.0, "gpu_count": 1, "tensor_parallel": 4}, "--gpu-count 4"),
    ],
)
def test_prices_that_would_give_a_wrong_cost_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecbenchError, match=words):
        Economics.from_config(config)
