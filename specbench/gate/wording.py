"""A gate's findings in sentences, for people who look at a red build."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean

from specbench.analysis.decision import LEAST_PAIRS
from specbench.comparison.caveats import OWN_BASELINE, of_another_day
from specbench.comparison.metrics import METRICS
from specbench.comparison.snapshot import CellFigures, CellKey, Snapshot
from specbench.comparison.wording import number, percent
from specbench.gate.questions import Question
from specbench.gate.result import Finding
from specbench.gate.rules import Rules


def sentence(finding: Finding, rules: Rules) -> str:
    """What changed, how sure that is, and what follows."""
    return f"{figures(finding, rules.level)}: {_verdict(finding, rules)}."


def figures(finding: Finding, level: float) -> str:
    """`speedup 1.62 → 1.46, -10.1% (95%: -11.9% to -8.2%)`, without what is not known."""
    interval = f"{level * 100:.4g}%: "
    if finding.about == "min_speedup":
        known = (
            "" if finding.low is None or finding.high is None else f" ({interval}{finding.low:.2f}–{finding.high:.2f})"
        )
        return f"speedup {finding.after:.3g}{known} against a floor of {finding.before:g}"
    text = f"{finding.about} {number(finding.before)} → {number(finding.after)}"
    if finding.change is None or finding.low is None or finding.high is None:
        return text
    ends = f"{percent(finding.low)} to {percent(finding.high)}"
    return f"{text}, {percent(finding.change)} ({interval}{ends})"


def _verdict(finding: Finding, rules: Rules) -> str:
    margin, floor = f"{rules.margin * 100:g}%", finding.about == "min_speedup"
    match finding.outcome:
        case "regression":
            return "below the floor" if floor else f"worse by more than {margin}"
        case "equivalent":
            return f"within ±{margin}"
        case "improvement":
            return f"better by more than {margin}"
        case "not worse":
            return "above the floor" if floor else f"a loss of {margin} is ruled out, how much is gained is open"
        case _:
            return _undecided(finding, margin, floor)


def _undecided(finding: Finding, margin: str, floor: bool) -> str:
    before, after = finding.replicates or (0, 0)
    have = f"{after}" if floor or before == after else f"{before} and {after}"
    needed = finding.replicates_needed
    if finding.change is None:
        return (
            f"{have} sound replicates are too few to judge by, at least {LEAST_PAIRS} are needed"
            + (f" and about {needed} would decide" if needed and needed > LEAST_PAIRS else "")
        )  # fmt: skip
    where = "it may be above or below" if floor else f"it may be a loss of {margin} or none"
    if needed is None:
        return f"{where}, and it lies so near to the bound that no reasonable number of replicates would tell"
    return f"{where}. About {needed} sound replicates of each side would decide, there are {have}"


def outputs(cell: CellFigures) -> str:
    """What is known of a cell's outputs."""
    detail = f" ({cell.equivalence_detail})" if cell.equivalence_detail else ""
    match cell.equivalence:
        case "EXACT" | "NEAR_TIE":
            return f"Outputs are those of plain decoding: {cell.equivalence}{detail}."
        case "DIVERGENT" if cell.unasked:
            return f"Outputs differ and the baseline could not be asked how near to ties it was{detail}."
        case "DIVERGENT":
            return f"Outputs CHANGED: DIVERGENT{detail}."
        case _:
            return f"Whether outputs are unchanged was not checked{detail}. Sampled outputs: see specbench verify."


def context(finding: Finding, baseline: Snapshot | None, candidate: Snapshot) -> str:
    """Beside a lower speedup: which of its two sides moved. Not judged, since stored runs are of different days."""
    if baseline is None or finding.about != "speedup" or finding.outcome != "regression":
        return ""
    plain = finding.cell._replace(method="none", gamma=0, as_deployed=False)
    moved = [_change(key, baseline, candidate) for key in (finding.cell, plain)]
    if None in moved:
        return ""
    return (
        f"Tokens per second, not judged: {percent(moved[0])} with speculation, {percent(moved[1])} without."
    )  # fmt: skip


def left_out(finding: Finding, baseline: Snapshot | None, candidate: Snapshot) -> str:
    """Beside what wants more data: why it has less than was measured."""
    if finding.outcome != "inconclusive" or finding.replicates is None:
        return ""
    before = None if finding.about == "min_speedup" else baseline
    sides = zip(("baseline", "candidate"), (before, candidate), finding.replicates, strict=True)
    cells = {name: side.by_key().get(finding.cell) for name, side, n in sides if side and n < len(side.replicates)}
    return " ".join(f"Of the {name} {text}" for name, cell in cells.items() if cell for text in cell.left_out)


def _change(key: CellKey, baseline: Snapshot, candidate: Snapshot) -> float | None:
    logs = []
    for side in (baseline, candidate):
        cell = side.by_key().get(key)
        known = [math.log(v) for v in (cell.figures.get("output_tokens_per_s", ()) if cell else ()) if v]
        if not known:
            return None
        logs.append(fmean(known))
    return math.exp(logs[1] - logs[0])


def caveats(asked: Sequence[Question | Finding], *, paired: bool) -> Iterator[str]:
    """What a reader must not conclude."""
    if paired:
        return
    names = list(dict.fromkeys(q.about for q in asked if isinstance(q, Question)))
    if timed := [name for name in names if name in METRICS and METRICS[name].of_the_day]:
        yield of_another_day(timed)
    if any(name.endswith("speedup") and name != "min_speedup" for name in names):
        yield OWN_BASELINE
