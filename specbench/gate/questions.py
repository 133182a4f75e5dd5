"""From two snapshots to the questions that a gate's statistics answer, and what can be said without any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, variance

from specbench.analysis.cost import Economics
from specbench.analysis.decision import LEAST_PAIRS
from specbench.analysis.statistics import Estimate, paired, unpaired
from specbench.comparison.figures import by_replicate, counted_unlike, why_none
from specbench.comparison.metrics import ACCEPTANCE, METRICS, Metric, applies
from specbench.comparison.snapshot import CellFigures, CellKey, Snapshot
from specbench.gate.result import Finding
from specbench.gate.rules import Rules


@dataclass(frozen=True, slots=True)
class Question:
    """A change to be judged.

    estimate: of the log ratio in which more is better; None with too few figures for any
    spread:   standard deviation of such a log ratio of one replicate of either side; None where unknown
    enough:   whether there are replicates enough to judge
    """

    cell: CellKey
    about: str
    before: float
    after: float
    more_is_better: bool
    estimate: Estimate | None
    spread: float | None
    replicates: tuple[int, int]
    enough: bool


def ask(baseline: Snapshot, candidate: Snapshot, rules: Rules) -> Iterator[Question | Finding]:
    """Of every metric of every cell that both have: a question, or why there is none to ask."""
    before, after = baseline.by_key(), candidate.by_key()
    # Another price is no change of the software: both sides are charged the candidate's.
    rent = Economics(candidate.gpu_price, candidate.gpu_count)
    for key, cell in after.items():
        if key not in before:
            continue
        old = before[key]
        if cell.failures and not old.failures:
            yield Finding(key, "measurement", "failed", _failed(cell, candidate))
            if not cell.figures:
                continue
        for metric in rules.compared():
            if not applies(metric, key):
                continue
            if reason := counted_unlike(metric, old, cell):
                yield Finding(key, metric.name, "no evidence", reason)
                continue
            sides = by_replicate(baseline, old, metric, rent), by_replicate(candidate, cell, metric, rent)
            if all(sides):
                yield _question(key, metric, sides, rules)
            elif any(sides) or metric.name != ACCEPTANCE or rules.metrics:
                named = {"baseline": old, "candidate": cell}
                missing = {name: side for (name, side), v in zip(named.items(), sides, strict=True) if not v}
                yield Finding(key, metric.name, "no evidence", _not_there(metric.name, missing))


def ask_floor(candidate: Snapshot, rules: Rules) -> Iterator[Question | Finding]:
    """Of every cell that the floor holds for, whether its speedup is at least that."""
    if rules.floor is None:
        return
    for key, cell in candidate.by_key().items():
        if not key.gamma or key.request_rate is not None or not rules.floor.holds_for(key):
            continue
        values = [v for v in cell.figures.get("speedup", ()) if v is not None]
        if cell.failures and not values:
            yield Finding(key, "min_speedup", "failed", _failed(cell, candidate))
        elif not values:
            yield Finding(key, "min_speedup", "no evidence", _not_there("speedup", {"candidate": cell}))
        else:
            logs = [math.log(v / rules.floor.speedup) for v in values]
            several, n = len(logs) > 1, len(logs)
            yield Question(
                cell=key,
                about="min_speedup",
                before=rules.floor.speedup,
                after=math.exp(fmean(map(math.log, values))),
                more_is_better=True,
                estimate=paired(logs) if several else None,
                spread=math.sqrt(variance(logs)) if several else None,
                replicates=(n, n),
                enough=n >= LEAST_PAIRS,
            )


def _question(key: CellKey, metric: Metric, sides: tuple[dict[int, float], dict[int, float]], rules: Rules) -> Question:
    sign = 1 if metric.more_is_better else -1
    before, after = ({r: sign * math.log(v) for r, v in side.items()} for side in sides)
    estimate, spread = None, None
    if rules.paired:
        both = sorted(before.keys() & after.keys())
        before, after = {r: before[r] for r in both}, {r: after[r] for r in both}
        ratios = [after[r] - before[r] for r in both]
        if len(ratios) > 1:
            estimate, spread = paired(ratios), math.sqrt(variance(ratios))
    elif min(len(before), len(after)) > 1:
        estimate = unpaired(list(before.values()), list(after.values()))
        spread = math.sqrt(variance(before.values()) + variance(after.values()))
    fewest = min(len(before), len(after))
    return Question(
        cell=key,
        about=metric.name,
        before=math.exp(sign * fmean(before.values())) if before else math.nan,
        after=math.exp(sign * fmean(after.values())) if after else math.nan,
        more_is_better=metric.more_is_better,
        estimate=estimate,
        spread=spread,
        replicates=(len(before), len(after)),
        enough=fewest >= LEAST_PAIRS or (fewest > 1 and metric.name == ACCEPTANCE and _same(before) and _same(after)),
    )


def _same(logs: dict[int, float]) -> bool:
    """Whether replicates agree to the digit: greedy tokens do not depend on time, so further ones add nothing."""
    return max(logs.values()) - min(logs.values()) < 1e-6


def _failed(cell: CellFigures, side: Snapshot) -> str:
    return f"It failed in {cell.failures} of {len(side.replicates)} replicates: {cell.error}"


def _not_there(metric: str, missing: Mapping[str, CellFigures]) -> str:
    """Why a metric has no figure on one side or on both."""
    return f"The {' and the '.join(missing)} gave no figure: {why_none(METRICS[metric], *missing.values())}"
