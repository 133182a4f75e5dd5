"""What a look at a sweep under way shows, in a sentence or two."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.verdict import WORTHWHILE
from specbench.planning.best_arm import BestArm
from specbench.planning.cells import Point
from specbench.planning.prediction import Calibrated
from specbench.planning.sequential import Look

_ENDS = {
    "settled": "Settled",
    "budget": "The time is spent",
    "out of reach": "What is left to measure would hardly settle the rest: stopped",
    "nothing left": "Nothing is left to measure",
}


def said(shown: Look, grid: Sequence[Point], found: Calibrated | None, confidence: float) -> str:
    """How far it is, what is best where, and how sure; what is next, while something is."""
    measured = len({o.point.key for o in found.fit.observations}) if found else 0
    far = f"{measured} of {len(grid)} cells"
    if shown.reason is None:
        sure = sum(b.probability >= confidence for b in shown.best)
        known = f", the best arm known in {sure} of {len(shown.best)} places" if shown.best else ""
        return f"{far}{known}. Next: {'; '.join(grid[i].label for i in shown.visit)}."
    if found is None:
        return f"{_ENDS[shown.reason]} after {far}: no cell could be measured."
    unsure = [b for b in shown.best if b.probability < confidence]
    settled = [b for b in shown.best if b.probability >= confidence]
    parts = (
        f"{_ENDS[shown.reason]} after {far}.",
        f"Best, sure to {confidence:.0%} and more: {_named(settled, grid)}." if settled else "",
        f"Not sure to {confidence:.0%}: {_named(unsure, grid)}." if unsure else "",
        "More --replicates or a lower --confidence may." if shown.reason == "out of reach" else "",
        f"In parentheses: the probability that no other arm is faster by more than {WORTHWHILE - 1:.0%}.",
        "What was not measured is predicted, and no verdict rests on it." if measured < len(grid) else "",
    )
    return " ".join(part for part in parts if part)


def _named(best: Sequence[BestArm], grid: Sequence[Point]) -> str:
    return "; ".join(f"{grid[b.best].label} ({b.probability:.1%})" for b in best)
