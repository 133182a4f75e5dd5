"""The confidence rule: a draft ends where the drafter is unsure."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.decoder.policies.base import written
from specbench.decoder.policies.fixed import FixedGamma


@dataclass(frozen=True, slots=True)
class ConfidenceRule:
    """max: gamma of a draft that the drafter is sure of · below: the probability under which it is not"""

    max: int = 7
    below: float = 0.4

    def __post_init__(self) -> None:
        if not 0 < self.below < 1:
            raise ValueError(f"below is a probability between 0 and 1; got {self.below:g}")


class ConfidenceStop(FixedGamma):
    """Ends a draft after the first token that the drafter gave less than `rule.below`, as the assisted generation of
    transformers does (`assistant_confidence_threshold`).

    That token is drafted and judged all the same: dropping it because it is unlikely would bias what comes out.
    """

    def __init__(self, rule: ConfidenceRule) -> None:
        super().__init__(rule.max)
        self.stop_below = rule.below
        self._rule = rule

    def __str__(self) -> str:
        return written("confidence", self._rule)
