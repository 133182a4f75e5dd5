"""Money: what a million output tokens cost, and how many whole GPUs a monthly volume needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.errors import SpecbenchError

SECONDS_PER_HOUR = 3_600
HOURS_PER_MONTH = 730
SECONDS_PER_MONTH = HOURS_PER_MONTH * SECONDS_PER_HOUR

MOST = {"gpu_price": 1e6, "gpu_count": 10**6, "engineering_cost": 1e12, "tokens_per_month": 1e18}
"""More is a slip of the hand: a GPU-hour for a million, all tokens of the world a million times over."""


@dataclass(frozen=True, slots=True)
class Economics:
    """What the user said of money; None where nothing was said.

    gpu_price: per GPU-hour;  gpu_count: GPUs that one server uses;  engineering_cost: one-off;  currency of all of them
    tokens_per_month: output tokens
    """

    gpu_price: float | None = None
    gpu_count: int = 1
    currency: str = "USD"
    engineering_cost: float | None = None
    tokens_per_month: float | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Economics:
        """From a sweep's configuration; fields that it lacks keep their defaults.

        Raises SpecbenchError for a figure that is not above 0 or above MOST, and where fewer GPUs are priced than used.
        """
        given = {name: config[name] for name in cls.__dataclass_fields__ if config.get(name) is not None}
        for name, value in given.items():
            if name != "currency" and not 0 < value <= MOST[name]:
                most = f"{MOST[name]:,.0f}"
                flag = f"--{name.replace('_', '-')}"
                raise SpecbenchError(f"{flag}: expected a number above 0, {most} at most; got {value}.")
        economics, used = cls(**given), config.get("tensor_parallel") or 1
        if economics.gpu_price is not None and economics.gpu_count < used:
            raise SpecbenchError(
                f"the server ran on {used} GPUs and {economics.gpu_count} is priced: pass --gpu-count {used}."
            )
        return economics


def cost_per_million_output_tokens(tokens_per_s: float | None, economics: Economics) -> float | None:
    """price × GPUs ÷ (tokens per second × 3600) × 10⁶: the whole server's rent is put on its output tokens."""
    if not tokens_per_s or economics.gpu_price is None:
        return None
    return economics.gpu_price * economics.gpu_count / (tokens_per_s * SECONDS_PER_HOUR) * 1e6


def saving_percent(speedup: float | None) -> float | None:
    """Share of the cost per token that a speedup saves at the same price and GPUs: 1 - 1/speedup. Negative: a loss."""
    return (1 - 1 / speedup) * 100 if speedup else None


def gpus_needed(tokens_per_s: float | None, economics: Economics) -> int | None:
    """Whole GPUs for the monthly volume at a steady rate: servers rounded up, times the GPUs of one server."""
    if not tokens_per_s or economics.tokens_per_month is None:
        return None
    needed = economics.tokens_per_month / SECONDS_PER_MONTH
    return math.ceil(needed / tokens_per_s) * economics.gpu_count


def payback_months(gpus_baseline: int | None, gpus_speculative: int | None, economics: Economics) -> float | None:
    """Months until saved GPU rent has paid `engineering_cost`: engineering cost ÷ (730 h × price × GPUs saved).

    None where price, volume or cost is not known, and where no whole GPU is saved: then it never pays back.
    """
    if gpus_baseline is None or gpus_speculative is None or not (economics.gpu_price and economics.engineering_cost):
        return None
    saved = gpus_baseline - gpus_speculative
    return economics.engineering_cost / (HOURS_PER_MONTH * economics.gpu_price * saved) if saved > 0 else None
