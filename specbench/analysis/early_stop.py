"""What a sweep that stopped early left unmeasured: predictions, marked as such, beside the cells of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from specbench.analysis.cell_summary import CellSummary


@dataclass(frozen=True, slots=True)
class EarlyStop:
    """As `early_stop.json` of a run has it, but for cells that were measured since.

    text:       what was found, and from how much
    why:        what ended it: settled, budget, out of reach, nothing left
    confidence: that was asked for;  measured_cells, grid_cells: how many of how many
    best:       by workload and batch size the arm that is best, and the probability that none is faster by over 3 %
    by_method:  the same by method, as if that and plain decoding were all there is; nothing waits for it
    predicted:  rows of the cells that were not measured
    """

    text: str
    why: str
    confidence: float
    measured_cells: int
    grid_cells: int
    best: tuple[Mapping[str, Any], ...]
    by_method: Mapping[str, Any]
    predicted: tuple[CellSummary, ...]

    @classmethod
    def of(cls, record: Mapping[str, Any] | None, cells: Sequence[CellSummary]) -> EarlyStop | None:
        """record: of the run, if any;  cells: its measured ones. None where nothing is predicted."""
        there = {_key(cell) for cell in cells}
        rows = [_row(values, cells[0].backend) for values in record["predicted"]] if record and cells else []
        predicted = tuple(row for row in rows if _key(row) not in there)
        if record is None or not predicted:
            return None
        told = {name: record[name] for name in ("text", "why", "confidence", "measured_cells", "grid_cells")}
        return cls(**told, best=tuple(record["best"]), by_method=record["by_method"], predicted=predicted)

    @property
    def largest(self) -> int:
        """Largest batch size that was skipped anywhere."""
        return max(row.batch_size for row in self.predicted)

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "predicted"}


def in_order(cells: Sequence[CellSummary], predicted: Sequence[CellSummary]) -> tuple[CellSummary, ...]:
    """All rows of a grid, each prediction where it would stand had it been measured."""
    if not predicted:
        return tuple(cells)
    rows = [*cells, *predicted]
    workloads, methods = (list(dict.fromkeys(getattr(c, name) for c in rows)) for name in ("workload", "method"))

    def position(c: CellSummary) -> tuple[int, bool, int, int, int]:
        return workloads.index(c.workload), c.is_speculative, methods.index(c.method), c.gamma, c.batch_size

    return tuple(sorted(rows, key=position))


def _row(values: Mapping[str, Any], backend: str) -> CellSummary:
    """backend: as the measured cells name it, which may be a stand-in for the one that was asked for"""
    return CellSummary(
        **values,
        backend=backend,
        as_deployed=False,
        status="predicted",
        predicted=True,
        speedup_ci_basis="predicted, 90 %" if values["gamma"] else None,
        equivalence_detail="not measured",
    )


def _key(c: CellSummary) -> tuple[str, str, int, int]:
    return c.workload, c.method, c.gamma, c.batch_size
