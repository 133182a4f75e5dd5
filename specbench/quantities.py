"""Numbers and times as a configuration writes them, in YAML or on the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Annotated

from pydantic import BeforeValidator, Field

from specbench.analysis.cost import MOST
from specbench.decoder.policies import ADAPTIVE, parse
from specbench.errors import SpecbenchError
from specbench.schedule import PREFIX, Schedule

MAX_RATE = 100_000.0
"""Requests per second: beyond what any client sends."""

_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def seconds(written: object) -> object:
    """`500ms`, `30s`, `10m`, `1h` or a bare number as seconds. Raises ValueError for another text."""
    if not isinstance(written, str):
        return _number(written)
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(ms|s|m|h|)", written.strip())
    if not match:
        raise ValueError("expected a time such as 500ms, 30s or 10m")
    return float(match[1]) * _SECONDS[match[2]]


def share(written: object) -> object:
    """`3%`, or .03, as a share of 1. Raises ValueError for another text: a bare 3 may be meant either way."""
    if not isinstance(written, str):
        return _number(written)
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(%|)", written.strip())
    if not match or (not match[2] and float(match[1]) >= 1):
        raise ValueError("expected a percentage such as 3%")
    return float(match[1]) / 100 if match[2] else float(match[1])


def budget(written: object) -> object:
    """`20%` or `30m`, as it is written. Raises ValueError for another: a bare number may be meant either way."""
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)(%|s|m|h)", written.strip()) if isinstance(written, str) else None
    if match is None or not float(match[1]) or (match[2] == "%" and float(match[1]) > 100):
        raise ValueError("expected a share of the whole grid's time such as 20%, or a time such as 30m")
    return match[0]


def budget_seconds(written: str, whole: float) -> float:
    """A budget in seconds. whole: seconds that a share is of"""
    value = share(written) if written.endswith("%") else seconds(written)
    assert isinstance(value, float)
    return value * whole if written.endswith("%") else value


def latency_bounds(written: object) -> object:
    """{"ttft_p95": "500ms", …} in seconds. Raises ValueError for what is no latency, no percentile or no time."""
    if not isinstance(written, Mapping):
        raise ValueError("expected bounds by name, as in ttft_p95: 500ms")
    if unknown := [name for name in written if not re.fullmatch(r"(ttft|tpot|e2e)_p(50|90|95|99)", str(name))]:
        raise ValueError(f"{unknown[0]!r} is none of ttft, tpot and e2e with _p50, _p90, _p95 or _p99")
    bounds = {str(name): seconds(value) for name, value in written.items()}
    if wrong := [name for name, bound in bounds.items() if not isinstance(bound, int | float) or not 0 < bound < inf]:
        raise ValueError(f"{wrong[0]} must be a time above 0")
    return bounds


def gamma(written: object) -> object:
    """A number as it is, a schedule by batch size, `schedule:1=4+9=0`, or a rule, `adaptive:threshold`. Raises
    ValueError for another text.
    """
    if not isinstance(written, str):
        return _number(written)
    try:
        if written.startswith(ADAPTIVE):
            return str(parse(written))
        return f"{PREFIX}{Schedule.parse(written)}"
    except (SpecbenchError, ValueError) as error:
        raise ValueError(str(error).rstrip(".")) from None


def _number(value: object) -> object:
    # YAML reads `yes` and `on` as true, and pydantic would take that for 1.
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


NotTruth = BeforeValidator(_number)
"""Refuses true and false where a number is expected."""

WholeNumber = Annotated[int, Field(strict=True)]
PositiveInt = Annotated[WholeNumber, Field(ge=1)]
Gamma = Annotated[PositiveInt | str, BeforeValidator(gamma)]
Number = Annotated[float, NotTruth]
Price = Annotated[Number, Field(gt=0, le=MOST["gpu_price"])]
Gpus = Annotated[PositiveInt, Field(le=MOST["gpu_count"])]
Engineering = Annotated[Number, Field(gt=0, le=MOST["engineering_cost"])]
TokensPerMonth = Annotated[Number, Field(gt=0, le=MOST["tokens_per_month"])]
Rate = Annotated[Number, Field(gt=0, le=MAX_RATE)]
Seconds = Annotated[float, BeforeValidator(seconds), Field(gt=0)]
Share = Annotated[float, BeforeValidator(share), Field(gt=0, lt=1)]
Budget = Annotated[str, BeforeValidator(budget)]
LatencyBounds = Annotated[Mapping[str, float], BeforeValidator(latency_bounds)]
