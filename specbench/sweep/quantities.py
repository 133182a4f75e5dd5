"""Numbers and times as a configuration writes them, in YAML or on the command line."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0}


def seconds(written: object) -> object:
    """`500ms`, `30s`, `10m`, `1h` or a bare number as seconds. Raises ValueError for another text."""
    if not isinstance(written, str):
        return _number(written)
    match = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(ms|s|m|h|)", written.strip())
    if not match:
        raise ValueError("expected a time such as 500ms, 30s or 10m")
    return float(match[1]) * _SECONDS[match[2]]


def _number(value: object) -> object:
    # YAML reads `yes` and `on` as true, and pydantic would take that for 1.
    if isinstance(value, bool):
        raise ValueError("expected a number")
    return value


NotTruth = BeforeValidator(_number)
"""Refuses true and false where a number is expected."""

WholeNumber = Annotated[int, Field(strict=True)]
PositiveInt = Annotated[WholeNumber, Field(ge=1)]
Number = Annotated[float, NotTruth]
Price = Annotated[Number, Field(gt=0)]
Seconds = Annotated[float, BeforeValidator(seconds), Field(gt=0)]
