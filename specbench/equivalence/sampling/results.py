"""What a test found, and what it could have found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Effect:
    """Total variation between what was drawn and what the target draws: an estimate, and a 95 % interval around it.

    Between the cells of the test: rare tokens are one cell, so the whole total variation may be larger.
    """

    tv: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test of the battery. It was not made where `p` is None; `detail` says why.

    n: tokens, or whole draws, that it looked at · df: degrees of freedom, None for tests without
    effect: None for tests that do not measure one
    detectable: the bias (for the support test the leak) that it would have found with the power asked for; None where
        no such figure can be given
    adjusted: p after Holm's correction over the battery
    """

    __test__ = False  # not a test of pytest's

    name: str
    statistic: float | None
    p: float | None
    n: int
    df: int | None = None
    effect: Effect | None = None
    detectable: float | None = None
    detail: str = ""
    adjusted: float | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def not_made(name: str, reason: str) -> TestResult:
    return TestResult(name, None, None, 0, detail=reason)
