"""From two snapshots to the questions that a gate's statistics answer, and what can be said without any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean, variance

from specbench.analysis.cost import Economics, cost_per_million_output_tokens
from specbench.analysis.decision import LEAST_PAIRS
from specbench.analysis.statistics import Estimate, paired, unpaired
from specbench.gate.metrics import COST, Metric
from specbench.gate.result import Finding
from specbench.gate.rules import Rules
from specbench.gate.snapshot import CellFigures, CellKey, Snapshot

_ACCEPTANCE = "mean_acceptance_length"


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
    for key, cell in after.items():
        if key not in before:
            continue
        old = before[key]
        if cell.failures and not old.failures:
            yield Finding(key, "measurement", "failed", _failed(cell, candidate))
            if not cell.figures:
                continue
        for metric in rules.compared():
            if not _applies(metric, key):
                continue
            if reason := _no_evidence(old, cell, metric):
                yield Finding(key, metric.name, "no evidence", reason)
                continue
            sides = _values(baseline, old, metric, candidate), _values(candidate, cell, metric, candidate)
            found = [[v for v in side.values() if v is not None] for side in sides]
            if all(found):
                yield _question(key, metric, sides, rules)
            elif any(found) or metric.name != _ACCEPTANCE or rules.metrics:
                named = {"baseline": old, "candidate": cell}
                missing = {name: side for (name, side), v in zip(named.items(), found, strict=True) if not v}
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


def _question(
    key: CellKey, metric: Metric, sides: tuple[dict[int, float | None], dict[int, float | None]], rules: Rules
) -> Question:
    sign = 1 if metric.more_is_better else -1
    before, after = ({r: sign * math.log(v) for r, v in side.items() if v is not None} for side in sides)
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
        enough=fewest >= LEAST_PAIRS or (fewest > 1 and metric.name == _ACCEPTANCE and _same(before) and _same(after)),
    )


def _same(logs: dict[int, float]) -> bool:
    """Whether replicates agree to the digit: greedy tokens do not depend on time, so further ones add nothing."""
    return max(logs.values()) - min(logs.values()) < 1e-6


def _applies(metric: Metric, cell: CellKey) -> bool:
    if metric.of_speculation and not cell.gamma:
        return False
    if cell.request_rate is None:
        return metric.name != "latency_speedup"
    return metric.name not in ("speedup", "output_tokens_per_s", COST)


def _no_evidence(before: CellFigures, after: CellFigures, metric: Metric) -> str | None:
    """Acceptance per step and per draft differ, so that only figures from one kind of source are alike."""
    sources = before.acceptance_source, after.acceptance_source
    if metric.name != _ACCEPTANCE or None in sources or sources[0] == sources[1]:
        return None
    return f"Acceptance is not counted alike: from {sources[0]} → from {sources[1]}."


def _failed(cell: CellFigures, side: Snapshot) -> str:
    return f"It failed in {cell.failures} of {len(side.replicates)} replicates: {cell.error}"


def _values(side: Snapshot, cell: CellFigures, metric: Metric, candidate: Snapshot) -> dict[int, float | None]:
    """By replicate. Both sides are charged the candidate's price: another price is no change of the software."""
    if metric.name != COST:
        return dict(zip(side.replicates, cell.figures.get(metric.name, ()), strict=False))
    rent = Economics(candidate.gpu_price, candidate.gpu_count)
    speeds = zip(side.replicates, cell.figures.get("output_tokens_per_s", ()), strict=False)
    return {replicate: cost_per_million_output_tokens(speed, rent) for replicate, speed in speeds}


def _not_there(metric: str, missing: Mapping[str, CellFigures]) -> str:
    """Why a metric has no figure on one side or on both."""
    why = "the engine does not report it" if metric == _ACCEPTANCE else "too few requests for a steady window"
    reasons = [text for cell in missing.values() for text in (*cell.left_out, cell.error) if text]
    return f"The {' and the '.join(missing)} gave no figure: {reasons[0] if reasons else f'{why}.'}"
