"""Questions, and sweeps of known truth that answer them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.replay.request import RequestSpec

Sweep = Callable[..., Awaitable[RunSummary]]


def questions(count: int, max_tokens: int = 60) -> list[RequestSpec]:
    return [RequestSpec(i, f"p{i}", max_tokens, prompt=f"Question number {i}?", seed=i) for i in range(count)]


def eagle3(summary: RunSummary) -> CellSummary:
    (cell,) = (cell for cell in summary.cells if cell.is_speculative)
    assert cell.status == "ok", cell.error
    return cell
