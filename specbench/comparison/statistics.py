"""Is a figure another in two runs? An interval, a p-value for all figures at once, and what would have been seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from specbench.analysis.multiplicity import holm
from specbench.analysis.power import detectable
from specbench.analysis.statistics import Estimate, paired, unpaired
from specbench.comparison.result import Basis, Effect, Outcome

_ROUNDING = 1e-9
_MOST_LOG = math.log(1_000)
"""A change so large is no news: who could only have seen that could have seen nothing."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A metric of one cell of one run. figures: above 0, by replicate;  within: by replicate, the standard error of the
    figure's logarithm inside the launch, where it is known
    """

    figures: Mapping[int, float]
    within: Mapping[int, float]

    def logs(self) -> dict[int, float]:
        return {replicate: math.log(value) for replicate, value in self.figures.items()}

    def mean(self) -> float | None:
        return math.exp(fmean(self.logs().values())) if self.figures else None


@dataclass(frozen=True, slots=True)
class Question:
    """effect: all that is known before anything is judged;  estimate: of the log ratio, None where there is none"""

    effect: Effect
    more_is_better: bool
    estimate: Estimate | None


def ask(effect: Effect, before: Sample, after: Sample, *, more_is_better: bool, same_session: bool) -> Question:
    """same_session: replicates of both sides were measured in turns, and are pairs"""
    known = replace(
        effect,
        before=before.mean(),
        after=after.mean(),
        replicates=(len(before.figures), len(after.figures)),
    )
    if known.before is None or known.after is None:
        return Question(known, more_is_better, None)
    found = _estimate(before, after, same_session=same_session)
    if found is None:
        text = "one launch on a side: how launches differ is not known (sweep --replicates)"
        if min(known.replicates) > 1:  # of one run, whose replicates would be pairs
            text = "fewer than two replicates have a figure of both arms, so that there are no pairs to tell by"
        return Question(replace(known, change=known.after / known.before, text=text), more_is_better, None)
    estimate, basis = found
    return Question(replace(known, change=math.exp(estimate.mean), basis=basis), more_is_better, estimate)


def judge(questions: Sequence[Question], level: float) -> Iterator[Effect]:
    """All that is judged is one family (Holm), but for what does not vary: that cannot err by chance.

    An interval is of its figure alone; a finding holds over the family.
    """
    ready = {i: q.estimate for i, q in enumerate(questions) if q.estimate and q.effect.basis != "within one launch"}
    p_values = {str(i): _p(estimate) for i, estimate in ready.items() if estimate.error > _ROUNDING}
    adjusted = holm(p_values)
    strictest = 1 - (1 - level) / max(1, len(p_values))
    for i, q in enumerate(questions):
        if q.estimate is None:
            yield q.effect
            continue
        margin = q.estimate.margin(level) if q.estimate.error > _ROUNDING else 0.0
        known = replace(q.effect, low=math.exp(q.estimate.mean - margin), high=math.exp(q.estimate.mean + margin))
        if i not in ready:
            yield replace(known, text="one launch on each side: the interval does not show how launches differ")
            continue
        if str(i) not in adjusted:
            yield replace(known, outcome=_direction(q) if abs(q.estimate.mean) > _ROUNDING else "same")
            continue
        yield replace(
            known,
            outcome=_direction(q) if adjusted[str(i)] < 1 - level else "none found",
            p=p_values[str(i)],
            p_holm=adjusted[str(i)],
            detectable=_factor(detectable(q.estimate, strictest)),
        )


def _estimate(before: Sample, after: Sample, *, same_session: bool) -> tuple[Estimate, Basis] | None:
    old, new = before.logs(), after.logs()
    if same_session:
        both = sorted(old.keys() & new.keys())
        if len(both) > 1:
            return paired([new[r] - old[r] for r in both]), "paired replicates"
    elif min(len(old), len(new)) > 1:
        return _unpaired(list(old.values()), list(new.values())), "replicates"
    errors = [side.within.get(r) for side in (before, after) for r in side.figures]
    if len(errors) == 2 and errors[0] is not None and errors[1] is not None:
        change = fmean(new.values()) - fmean(old.values())
        return Estimate(change, math.hypot(errors[0], errors[1]), math.inf), "within one launch"
    return None


def _unpaired(old: Sequence[float], new: Sequence[float]) -> Estimate:
    """Welch's, with no more degrees of freedom than two sides as short as the shorter one would have.

    A spread that two launches happen not to show leaves Welch all those of the longer side, and far out in the tail,
    where Holm looks among many figures, that errs: of 2 against 20 launches and 10 figures without any change it finds
    a difference in 4 comparisons of 10. So bounded it errs in 1 to 5% of comparisons, and in 9% where the shorter side
    varies three times as much (benchmarks/compare_error_rates.py).
    """
    estimate = unpaired(old, new)
    return replace(estimate, dof=min(estimate.dof, 2 * (min(len(old), len(new)) - 1)))


def _p(estimate: Estimate) -> float:
    return min(1.0, 2 * min(estimate.p_below(0.0), estimate.p_above(0.0)))


def _direction(question: Question) -> Outcome:
    assert question.estimate is not None
    return "better" if (question.estimate.mean > 0) == question.more_is_better else "worse"


def _factor(log_change: float) -> float | None:
    """None where that is beyond reason, as with two replicates that differ much."""
    return math.exp(log_change) if log_change < _MOST_LOG else None
