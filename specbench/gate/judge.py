"""The gate itself: two snapshots and the rules, to findings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from specbench.analysis.decision import LEAST_PAIRS, Judgement, judge_changes
from specbench.analysis.power import pairs_needed
from specbench.analysis.statistics import Estimate
from specbench.comparison.fingerprint import changes
from specbench.comparison.metrics import COST
from specbench.comparison.snapshot import Snapshot
from specbench.errors import SpecbenchError
from specbench.gate import wording
from specbench.gate.questions import Question, ask, ask_floor
from specbench.gate.refusal import refuse_unlike
from specbench.gate.result import Finding, GateResult, Outcome
from specbench.gate.rules import Rules

_ROUNDING = 1e-9
_MOST_REPLICATES = 1_000
"""Nobody measures more to settle a change that lies as good as at the margin."""


def judge(baseline: Snapshot | None, candidate: Snapshot, rules: Rules) -> GateResult:
    """Raises SpecbenchError where the sides are too unlike to be compared, or nothing is asked of any cell."""
    asked: list[Question | Finding] = []
    if baseline is not None:
        refuse_unlike(baseline, candidate, same_session=rules.paired)
        if not baseline.by_key().keys() & candidate.by_key().keys():
            raise SpecbenchError(f"{baseline.run} and {candidate.run} have no cell in common: measure the same grid.")
        _check_price(candidate, rules)
        asked += [*ask(baseline, candidate, rules), *_not_yet_measured(baseline, candidate)]
    asked += _floors(candidate, rules)
    if rules.require_equivalence:
        asked += _outputs(candidate)
    if not asked:
        raise SpecbenchError(_nothing(candidate, rules))
    return GateResult(
        baseline=baseline.run if baseline else None,
        candidate=candidate.run,
        simulated=candidate.simulated or bool(baseline and baseline.simulated),
        margin=rules.margin,
        level=rules.level,
        paired=rules.paired,
        findings=tuple(_answer(asked, baseline, candidate, rules)),
        not_compared=tuple(_not_compared(baseline, candidate)) if baseline else (),
        changes=tuple(map(str, changes(baseline, candidate))) if baseline else (),
        caveats=tuple(wording.caveats(asked, paired=rules.paired)),
    )


def _answer(
    asked: list[Question | Finding], baseline: Snapshot | None, candidate: Snapshot, rules: Rules
) -> Iterator[Finding]:
    """Everything that is asked is one family: Holm's adjustment is over all of it, floors included.

    But for what does not vary at all (greedy acceptance): that cannot err by chance, and takes no part of the level.
    """
    bound = -math.log1p(-rules.margin)
    ready = {str(i): _shifted(q, bound) for i, q in enumerate(asked) if isinstance(q, Question) and q.enough}
    family = {name: e for name, e in ready.items() if e.error > _ROUNDING}
    exact = {name: e for name, e in ready.items() if name not in family}
    judged = {name: j for part in (family, exact) for name, j in judge_changes(part, rules.margin, rules.level).items()}
    for i, question in enumerate(asked):
        if isinstance(question, Finding):
            yield question
            continue
        found = _found(question, judged.get(str(i)), rules, len(family))
        more = (wording.context(found, baseline, candidate), wording.left_out(found, baseline, candidate))
        yield replace(found, text=" ".join(part for part in (found.text, *more) if part))


def _shifted(question: Question, bound: float) -> Estimate:
    """A floor is broken as soon as the interval is below it: it has no margin of its own."""
    estimate = question.estimate
    assert estimate is not None
    return replace(estimate, mean=estimate.mean - bound) if question.about == "min_speedup" else estimate


def _found(question: Question, judgement: Judgement | None, rules: Rules, family: int) -> Finding:
    bound = -math.log1p(-rules.margin)
    found = Finding(
        question.cell,
        question.about,
        "inconclusive" if judgement is None else _outcome(judgement, question, rules.margin),
        "",
        before=question.before,
        after=question.after,
        replicates=question.replicates,
        p_regression=None if judgement is None else judgement.p_regression,
    )
    if judgement is not None and question.about == "min_speedup":
        scale = question.before * math.exp(bound)
        found = replace(found, change=question.after, low=judgement.low * scale, high=judgement.high * scale)
    elif judgement is not None:
        low, high = judgement.low, judgement.high
        if not question.more_is_better:
            low, high = 1 / high, 1 / low
        change = math.exp((1 if question.more_is_better else -1) * _shifted(question, bound).mean)
        found = replace(found, change=change, low=low, high=high)
    if found.outcome == "inconclusive":
        found = replace(found, replicates_needed=_needed(question, bound, rules, max(1, family)))
    return replace(found, text=wording.sentence(found, rules))


def _outcome(judgement: Judgement, question: Question, margin: float) -> Outcome:
    """Where an interval reaches above the margin and not below, how much is gained is open, and that nothing is lost
    is shown: the build may pass.
    """
    if question.about == "min_speedup" and judgement.outcome in ("equivalent", "improvement"):
        return "not worse"
    if judgement.outcome == "inconclusive" and judgement.low > 1 - margin:
        return "not worse"
    return judgement.outcome


def _needed(question: Question, bound: float, rules: Rules, family: int) -> int | None:
    """So many that, were the change just as it looks, the interval would clear the margin with 90 % probability.

    Of regressions Holm takes the smallest at α / family, and so does this.
    """
    have = min(question.replicates)
    if question.estimate is None or question.spread is None:
        return LEAST_PAIRS
    distance = question.estimate.mean + (0.0 if question.about == "min_speedup" else bound)
    # Each pair is worth (distance / spread)² of the z² ≥ 1 that any of these tests asks for in all.
    if abs(distance) * math.sqrt(_MOST_REPLICATES) <= question.spread:
        return None
    needed = pairs_needed(distance, question.spread, level=1 - (1 - rules.level) / family)
    if needed is None or needed > _MOST_REPLICATES:
        return None
    return max(needed, LEAST_PAIRS, have + 1)


def _outputs(candidate: Snapshot) -> Iterator[Finding]:
    for key, cell in candidate.by_key().items():
        if not key.gamma or not cell.figures:
            continue
        outcome: Outcome = "no evidence"
        if cell.equivalence in ("EXACT", "NEAR_TIE"):
            outcome = "equivalent"
        elif cell.equivalence == "DIVERGENT" and not cell.unasked:
            outcome = "regression"
        yield Finding(key, "outputs", outcome, wording.outputs(cell))


def _not_yet_measured(baseline: Snapshot, candidate: Snapshot) -> Iterator[Finding]:
    """Cells of the baseline that an interrupted candidate lacks."""
    if candidate.missing:
        for key in baseline.by_key().keys() - candidate.by_key().keys():
            text = f"{candidate.run} is not complete. Go on with: specbench sweep --resume --output RUN."
            yield Finding(key, "measurement", "no evidence", text)


def _not_compared(baseline: Snapshot, candidate: Snapshot) -> Iterator[str]:
    before, after = baseline.by_key(), candidate.by_key()
    yield from (f"{key} (only in {baseline.run})" for key in before if key not in after)
    yield from (f"{key} (only in {candidate.run})" for key in after if key not in before)


def _floors(candidate: Snapshot, rules: Rules) -> list[Question | Finding]:
    asked = list(ask_floor(candidate, rules))
    if rules.floor is not None and not asked:
        raise SpecbenchError(
            f"--min-speedup: no closed-loop cell with speculation is at the place that --at names. {_cells(candidate)}"
        )
    return asked


def _check_price(candidate: Snapshot, rules: Rules) -> None:
    if COST in (rules.metrics or ()) and candidate.gpu_price is None:
        raise SpecbenchError(f"--metric {COST} needs a price: sweep the candidate with --gpu-price, or name another.")


def _nothing(candidate: Snapshot, rules: Rules) -> str:
    names = ", ".join(metric.name for metric in rules.compared())
    return f"there is nothing to compare: no cell has {names}. {_cells(candidate)}"


def _cells(candidate: Snapshot) -> str:
    return f"{candidate.run} has: {'; '.join(map(str, candidate.by_key()))}."
