"""What a drafted token costs: given, taken from a run that was measured, or estimated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from specbench.analysis.cell_summary import CellSummary
from specbench.errors import SpecbenchError


@dataclass(frozen=True, slots=True)
class Cost:
    """per_token: of a drafted token, in plain decoding steps · source: where that is from, in words
    simulated: from a scenario
    """

    per_token: float
    source: str
    simulated: bool = False

    @classmethod
    def given(cls, text: str, flag: str) -> Cost:
        """Raises SpecbenchError for what is no cost."""
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise SpecbenchError(f"{flag}: a cost is a number of plain steps, 0 or more; got {text!r}.")
        return cls(value, "given")


FREE = Cost(0.0, "looking drafts up costs next to nothing")


def run_costs(path: Path, batch_size: int | None = None) -> dict[str, Cost]:
    """Cost of a drafted token in plain decoding steps, by method, as the run measured it at one batch size.

    batch_size: None for the smallest of the run
    Raises SpecbenchError where the run has no such cells.
    """
    from specbench.analysis.summary import summarize
    from specbench.store.run import RunStore

    store = RunStore.open(path)
    cells = [c for c in summarize(store).cells if c.is_speculative and c.step_cost_ratio is not None]
    sizes = sorted({c.batch_size for c in cells})
    if not sizes:
        raise SpecbenchError(f"{path} has no cell with a measured step cost. Give --cost instead.")
    size = sizes[0] if batch_size is None else batch_size
    if size not in sizes:
        raise SpecbenchError(f"{path} has no cell with batch size {size}; it has {', '.join(map(str, sizes))}.")
    source = f"{'SIMULATED' if store.is_simulated else 'measured'} in {path.name} at batch size {size}"
    found = slopes(c for c in cells if c.batch_size == size)
    return {method: Cost(cost, source, store.is_simulated) for method, cost in found.items()}


def slopes(cells: Iterable[CellSummary]) -> dict[str, float]:
    """By method, the least-squares slope through the origin of (step cost - 1) over the tokens drafted per step."""
    points: dict[str, list[tuple[float, float]]] = {}
    for cell in cells:
        if cell.step_cost_ratio and cell.mean_acceptance_length and cell.draft_acceptance_rate:
            drafted = (cell.mean_acceptance_length - 1) / cell.draft_acceptance_rate
            points.setdefault(cell.method, []).append((drafted, cell.step_cost_ratio - 1))
    return {method: max(0.0, _slope(found)) for method, found in points.items()}


def _slope(points: Iterable[tuple[float, float]]) -> float:
    found = list(points)
    return sum(x * y for x, y in found) / sum(x * x for x, _ in found)
