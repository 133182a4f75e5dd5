"""The decision: whether to switch speculation on, with which method and gamma, and up to which batch size."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from specbench.analysis.cell_summary import CellSummary

Outcome = Literal["gain", "no gain", "unsure"]

WORTHWHILE = 1.03
"""A gain whose interval stays below this is none: smaller ones are lost to the next engine upgrade."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do; all fields but the first are None where nothing is enabled.

    recommendation: ENABLE, ENABLE UP TO BATCH b (b being a number), DISABLE or NOT ENOUGH EVIDENCE
    up_to_batch_size: the largest batch size that was shown to gain
    policy: what sets gamma, as `--gamma` takes it; None where it stays, too. `gamma` is then its largest
    """

    recommendation: str
    method: str | None = None
    gamma: int | None = None
    up_to_batch_size: int | None = None
    policy: str | None = None

    def enables(self, cell: CellSummary) -> bool:
        """Whether the arm of a cell is enabled at its batch size."""
        limit = self.up_to_batch_size or 0
        return (cell.method, cell.gamma) == (self.method, self.gamma) and cell.batch_size <= limit


def decide(cells: Iterable[CellSummary], largest: int = 0) -> Decision:
    """The decision for the cells of one workload, or of several that are served together: then all must gain.

    An arm (method, gamma) is enabled up to batch size b if a gain is shown at b (the whole interval above 1), and no
    smaller batch size is without one or points below 1. Of several such arms, the one with the largest sum of
    ln speedup over the batch sizes that it is enabled for. Nothing is enabled over outputs that diverge, whatever the
    speed. DISABLE if no arm may be enabled and none is unsure.

    largest: batch size of the grid, of which cells may have been skipped: nothing is enabled beyond what was measured
    """
    arms: dict[tuple[str, int], list[CellSummary]] = defaultdict(list)
    for cell in cells:
        if cell.is_speculative:
            arms[cell.method, cell.gamma].append(cell)
    limits = {arm: _enabled_up_to(group) for arm, group in arms.items()}
    enabled = {arm: limit for arm, limit in limits.items() if limit is not None}
    if not enabled:
        unsure = not arms or any(outcome(cell) == "unsure" for group in arms.values() for cell in group)
        return Decision("NOT ENOUGH EVIDENCE" if unsure else "DISABLE")
    method, gamma = best = max(enabled, key=lambda arm: _total_gain(arms[arm], enabled[arm]))
    limit = enabled[best]
    everywhere = limit == max(largest, *(cell.batch_size for cell in arms[best]))
    what = "ENABLE" if everywhere else f"ENABLE UP TO BATCH {limit}"
    return Decision(what, method, gamma, limit, arms[best][0].policy)


def outcome(cell: CellSummary) -> Outcome:
    """What a cell shows on its own: the interval decides, unless outputs diverge or degenerate requests carry the gain.

    Differences that nobody could ask the baseline about may be rounding: alone they are unsure.
    """
    if cell.equivalence == "DIVERGENT":
        return "no gain" if cell.divergent_requests > cell.unprobed_requests else "unsure"
    low, high = cell.speedup_ci_low, cell.speedup_ci_high
    if not cell.is_evidence or low is None or high is None:
        return "unsure"
    if high <= WORTHWHILE:
        return "no gain"
    return "gain" if low > 1 and not cell.owes_gain_to_degenerate else "unsure"


def _enabled_up_to(cells: Sequence[CellSummary]) -> int | None:
    by_batch: dict[int, list[CellSummary]] = defaultdict(list)
    for cell in cells:
        by_batch[cell.batch_size].append(cell)
    limit = None
    for batch_size in sorted(by_batch):
        outcomes = {outcome(cell) for cell in by_batch[batch_size]}
        if "no gain" in outcomes or any(bars(cell) for cell in by_batch[batch_size]):
            break
        if outcomes == {"gain"}:
            limit = batch_size
    return limit


def bars(cell: CellSummary) -> bool:
    """Whether larger batch sizes may not be enabled over this one, sure or not."""
    return (cell.speedup or 0) <= 1 or cell.equivalence == "DIVERGENT"


def _total_gain(cells: Iterable[CellSummary], limit: int) -> float:
    return math.fsum(math.log(c.speedup) for c in cells if c.speedup and c.batch_size <= limit)
