"""What was measured, one figure at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """what: stable name · unit: of `value` · of_bandwidth: bytes that must move ÷ (copy bandwidth × time), 0..1

    batch_size, gamma, context: 0 where they mean nothing; context is in tokens per request
    synthetic: acceptance that was made up; None where none was
    """

    what: str
    model: str
    value: float
    unit: str
    batch_size: int = 0
    gamma: int = 0
    context: int = 0
    of_bandwidth: float | None = None
    synthetic: float | None = None
