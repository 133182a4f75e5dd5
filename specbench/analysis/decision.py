"""The decision rule for a change: regression, equivalent, or too uncertain to say, over several cells at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from specbench.analysis.multiplicity import holm
from specbench.analysis.statistics import LEVEL, Estimate

Outcome = Literal["regression", "equivalent", "improvement", "inconclusive"]

MARGIN = 0.03
"""Smaller changes than this share are none, unless a user says otherwise."""

LEAST_PAIRS = 5
"""With fewer, an estimated spread can be small by luck, and an A/A comparison look like a regression."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a cell's change shows.

    low, high: interval of the change, as a ratio (1 is none), at the level of this look
    p_regression: of "no worse than the margin", adjusted for the number of cells (Holm)
    """

    outcome: Outcome
    low: float
    high: float
    p_regression: float


def judge_changes(
    changes: Mapping[str, Estimate], margin: float = MARGIN, level: float = LEVEL
) -> dict[str, Judgement]:
    """Judge the change of each cell: log of after ÷ before, of a figure of which more is better.

    regression:  the interval lies wholly below 1 − margin, also after Holm's adjustment over the cells
    improvement: wholly above 1 / (1 − margin), the same distance on the log scale
    equivalent:  wholly between them. That all cells are holds without an adjustment (intersection-union, Berger, 1982)
    level: of the intervals; where one looks more than once that of the look (`sequential.Looks`)

    For a figure of which less is better give the estimates of before ÷ after.
    """
    bound, alpha = -math.log1p(-margin), 1 - level
    adjusted = holm({cell: change.p_below(-bound) for cell, change in changes.items()})
    return {cell: _judge(change, bound, level, adjusted[cell], alpha) for cell, change in changes.items()}


def _judge(change: Estimate, bound: float, level: float, p_regression: float, alpha: float) -> Judgement:
    half = change.margin(level)
    low, high = change.mean - half, change.mean + half
    outcome: Outcome = "inconclusive"
    if p_regression < alpha / 2:
        outcome = "regression"
    elif -bound < low and high < bound:
        outcome = "equivalent"
    elif low > bound:
        outcome = "improvement"
    return Judgement(outcome, math.exp(low), math.exp(high), p_regression)


def verdict(judgements: Iterable[Judgement]) -> Outcome:
    """Of all cells together: one regression is one, and all must be known to be fine to be fine."""
    outcomes = {j.outcome for j in judgements}
    for outcome in ("regression", "inconclusive", "equivalent"):
        if outcome in outcomes:
            return outcome
    return "improvement"
