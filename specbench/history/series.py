"""A cell's figures from run to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from specbench.analysis.marks import VOIDING
from specbench.speculation import Speculation

IDENTITY = (
    *("machine", "backend", "target", "workload", "temperature", "batch_size", "request_rate"),
    *("method", "gamma", "schedule", "adaptive", "drafter", "as_deployed", "again"),
)
"""By what cells of two runs are the same; with the machine, it tells one series from another."""


@dataclass(frozen=True, slots=True)
class Figure:
    """value: as in cells.csv;  low, high: its 95% interval, None where the metric has none"""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def has_interval(self) -> bool:
        """Whether there is one that says anything: of launches that differ wildly it spans orders of magnitude."""
        return self.low is not None and self.high is not None and self.high <= 10 * self.low


@dataclass(frozen=True, slots=True)
class Point:
    """A cell in one run.

    figures: by metric, those that are known;  marks: codes of docs/columns.md
    changed: what this run was made with that the one before in its series was not, in words
    """

    run: str
    created_at: datetime | None
    specbench_version: str | None
    engine: str | None
    simulated: bool
    status: str
    marks: tuple[str, ...]
    figures: Mapping[str, Figure]
    changed: tuple[str, ...] = ()

    @property
    def is_void(self) -> bool:
        """Whether a mark says that its figures are no evidence."""
        return bool(VOIDING.intersection(self.marks))


@dataclass(frozen=True, slots=True)
class Series:
    """One cell on one kind of machine over the runs that measured it, the newest last."""

    machine: str | None
    backend: str
    target: str
    workload: str
    temperature: float
    batch_size: int
    request_rate: float | None
    method: str
    gamma: int
    schedule: str | None
    adaptive: str | None
    drafter: str | None
    as_deployed: bool
    again: bool
    points: tuple[Point, ...]

    @property
    def label(self) -> str:
        rule = "schedule" if self.schedule else (self.adaptive or "").partition("+")[0]
        method = self.method.partition("-")[0]
        kind = self.method.removeprefix(method).removeprefix(rule and f"-{rule}")
        arm = Speculation(method, self.gamma, self.drafter, self.as_deployed, self.again, self.schedule)
        return f"{replace(arm, adaptive=self.adaptive).label}{kind}"

    @property
    def load(self) -> str:
        return f"batch {self.batch_size}" if self.request_rate is None else f"{self.request_rate:g} requests/s"

    @property
    def place(self) -> str:
        """What is the same in all cells of a table: workload, engine, target, machine."""
        sampled = f", temperature {self.temperature:g}" if self.temperature else ""
        return f"{self.workload}{sampled}: {self.backend}, {self.target}, {self.machine}"

    def to_json(self) -> dict[str, Any]:
        points = [{**asdict(p), "created_at": p.created_at.isoformat() if p.created_at else None} for p in self.points]
        return {**{name: getattr(self, name) for name in IDENTITY}, "points": points}
