"""What a gate asks: which metrics, which loss is none, which floors must hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from specbench.analysis.decision import MARGIN
from specbench.analysis.statistics import LEVEL
from specbench.comparison.metrics import INTERLEAVED, METRICS, STORED, Metric
from specbench.comparison.snapshot import CellKey
from specbench.errors import SpecbenchError

_PLACES = ("workload", "method", "gamma", "batch_size", "request_rate")


@dataclass(frozen=True, slots=True)
class Floor:
    """The least speedup of the cells at a place. at: field of a cell to its value as text; empty for all cells"""

    speedup: float
    at: Mapping[str, str]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.speedup) and self.speedup > 0):
            raise SpecbenchError(f"--min-speedup: expected a number above 0, such as 1.2; got {self.speedup}.")
        if unknown := [name for name in self.at if name not in _PLACES]:
            raise SpecbenchError(f"--at: {unknown[0]!r} is none of {', '.join(_PLACES)}.")

    def holds_for(self, cell: CellKey) -> bool:
        return all(_same(getattr(cell, name), value) for name, value in self.at.items())


@dataclass(frozen=True, slots=True)
class Rules:
    """metrics: None for those that fit the comparison;  margin: the loss that is none, a share of 1

    paired: whether replicates of both sides were measured in turns, in one session
    level:  of the intervals; where one looks more than once that of the look
    """

    metrics: tuple[str, ...] | None = None
    margin: float = MARGIN
    floor: Floor | None = None
    require_equivalence: bool = False
    paired: bool = False
    level: float = LEVEL

    def __post_init__(self) -> None:
        if unknown := [name for name in self.metrics or () if name not in METRICS]:
            raise SpecbenchError(f"--metric: a gate cannot compare {unknown[0]!r}. Choose from: {', '.join(METRICS)}.")

    def compared(self) -> list[Metric]:
        names = self.metrics or (INTERLEAVED if self.paired else STORED)
        return [METRICS[name] for name in dict.fromkeys(names)]


def _same(value: object, written: str) -> bool:
    if isinstance(value, str):
        return value == written
    try:
        return value is not None and float(written) == float(str(value))
    except ValueError:
        raise SpecbenchError(f"--at: expected a number; got {written!r}.") from None
