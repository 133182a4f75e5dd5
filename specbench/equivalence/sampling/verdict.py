"""From the tests of all arms to one verdict, with what it would have found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from specbench.analysis.multiplicity import holm
from specbench.equivalence.sampling.battery import FREQUENCIES, ArmResult
from specbench.equivalence.sampling.power import POWER

Outcome = Literal["EQUIVALENT", "NOT EQUIVALENT", "INCONCLUSIVE"]


@dataclass(frozen=True, slots=True)
class SamplingVerdict:
    """The verdict on sampled outputs, the worst of its arms.

    level: of the whole family of tests (Holm, 1979) · arms: by the arm's name, p-values adjusted
    reason: a sentence · detectable: the total variation that the weakest arm's test of frequencies would have found;
        None where it was not made
    """

    outcome: Outcome
    level: float
    arms: Mapping[str, ArmResult]
    reason: str
    detectable: float | None

    @property
    def power_statement(self) -> str:
        if self.detectable is None:
            return "no test of token frequencies was made, so nothing can be said of what it would have found"
        return (
            f"would have found a bias of TV ≥ {self.detectable:.3f} between the likelier tokens (from 1 % on; the rest "
            f"as one) with probability {POWER:g}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "verdict": self.outcome,
            "reason": self.reason,
            "level": self.level,
            "detectable_tv": self.detectable,
            "power": self.power_statement,
            "arms": {
                name: {
                    "tests": [test.to_json() for test in arm.tests],
                    "likelihood": None
                    if arm.likelihood is None
                    else {
                        "n": arm.likelihood.n,
                        "difference": arm.likelihood.difference,
                        "error": arm.likelihood.error,
                        "p": arm.likelihood.p,
                        "margin": arm.likelihood.margin,
                        "equivalent": arm.likelihood.is_equivalent,
                    },
                }
                for name, arm in self.arms.items()
            },
        }


def judge(arms: Mapping[str, ArmResult], level: float, find_tv: float, unsound: str | None = None) -> SamplingVerdict:
    """NOT EQUIVALENT if any test rejects after Holm's correction over all tests of all arms; EQUIVALENT if none does
    and every arm's test of frequencies would have found a bias of `find_tv`; INCONCLUSIVE otherwise.

    unsound: a sentence on why passing would mean nothing (no drafts came, say); a rejection stands all the same
    """
    adjusted = _adjusted(arms)
    rejected = [
        (name, test)
        for name, arm in adjusted.items()
        for test in arm.tests
        if test.adjusted is not None and test.adjusted < level
    ]
    frequencies = [test for arm in adjusted.values() for test in arm.tests if test.name == FREQUENCIES]
    found = [test.detectable for test in frequencies if test.detectable is not None]
    detectable = max(found) if found and len(found) == len(arms) else None
    outcome: Outcome = "EQUIVALENT"
    reason = f"no test rejects at family level {level:g}"
    if rejected:
        outcome = "NOT EQUIVALENT"
        names = ", ".join(f"{test.name} ({name})" for name, test in rejected)
        reason = f"rejected at family level {level:g}: {names}"
    elif unsound is not None:
        outcome, reason = "INCONCLUSIVE", unsound
    elif detectable is None:
        outcome = "INCONCLUSIVE"
        reason = "; ".join(f"{test.name}: {test.detail}" for test in frequencies if test.p is None) or "nothing tested"
    elif detectable > find_tv:
        outcome = "INCONCLUSIVE"
        reason = (
            f"too few draws: a bias of TV {find_tv:g} could go unseen, only {detectable:.3f} would be found for sure; "
            f"raise --draws {math.ceil((detectable / find_tv) ** 2)}-fold"
        )
    return SamplingVerdict(outcome, level, adjusted, reason, detectable)


def _adjusted(arms: Mapping[str, ArmResult]) -> dict[str, ArmResult]:
    made = {f"{name}: {test.name}": test.p for name, arm in arms.items() for test in arm.tests if test.p is not None}
    corrected = holm(made)
    return {
        name: replace(
            arm, tests=tuple(replace(test, adjusted=corrected.get(f"{name}: {test.name}")) for test in arm.tests)
        )
        for name, arm in arms.items()
    }
