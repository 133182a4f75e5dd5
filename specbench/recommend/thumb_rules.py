"""Rules of thumb of the field against this run: which held, and which would have misled."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.speedup import pair, work
from specbench.analysis.statistics import LEVEL, Work, prompt_shifts, work_log_ratio
from specbench.analysis.verdict import outcome
from specbench.recommend.evidence import reason_against
from specbench.store.measurement import Measurement


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """A rule and the cells that it speaks about.

    held, misled: cells in which it said what was measured, or the contrary; unsure ones count for neither
    verdict: `held`, `misled` (in one cell at least), or `cannot say`
    figure: what it rests on here, in words
    """

    rule: str
    held: int
    misled: int
    figure: str

    @property
    def verdict(self) -> str:
        return "misled" if self.misled else "held" if self.held else "cannot say"


@dataclass(frozen=True, slots=True)
class _Rule:
    """says: whether speculation pays in a cell, beside its baseline; None where the rule has nothing to go by."""

    text: str
    says: Callable[[CellSummary, CellSummary], bool | None]
    shows: Callable[[CellSummary, CellSummary], str]


def _above(share: float) -> Callable[[CellSummary, CellSummary], bool | None]:
    return lambda cell, plain: None if cell.draft_acceptance_rate is None else cell.draft_acceptance_rate > share


def _acceptance(cell: CellSummary, plain: CellSummary) -> str:
    return f"acceptance {cell.draft_acceptance_rate or 0:.0%}"


def _batch(cell: CellSummary, plain: CellSummary) -> str:
    return f"batch size {cell.batch_size}"


def _less_than_half_busy(cell: CellSummary, plain: CellSummary) -> bool | None:
    # Of a host without a GPU it is the processors' use, which the rule is not about.
    if plain.telemetry_source != "gpu" or plain.utilization_percent_mean is None:
        return None
    return plain.utilization_percent_mean < 50


def _repays_its_step(cell: CellSummary, plain: CellSummary) -> bool | None:
    if cell.alpha is None or cell.alpha_break_even is None:
        return None
    return cell.alpha > cell.alpha_break_even


_RULES = (
    _Rule("acceptance above 50% pays, below it costs", _above(0.5), _acceptance),
    _Rule("acceptance above 70% pays, below it does not", _above(0.7), _acceptance),
    _Rule("it pays up to batch size 8", lambda cell, plain: cell.batch_size <= 8, _batch),
    _Rule("it pays up to batch size 32", lambda cell, plain: cell.batch_size <= 32, _batch),
    _Rule(
        "it pays while the GPU is less than half busy",
        _less_than_half_busy,
        lambda cell, plain: f"GPU {plain.utilization_percent_mean or 0:.0f}% busy without",
    ),
    _Rule(
        "it pays where alpha repays the measured step (arithmetic, no thumb)",
        _repays_its_step,
        lambda cell, plain: f"alpha {cell.alpha or 0:.2f}, break-even {cell.alpha_break_even or 0:.2f}",
    ),
)


def check_rules(cells: Sequence[CellSummary], measurements: Sequence[Measurement]) -> tuple[RuleCheck, ...]:
    """Every rule against the cells whose outcome is sure, and the one on long answers against their requests."""
    plain = {(c.workload, c.batch_size): c for c in cells if c.is_baseline}
    judged = [
        (cell, plain[cell.workload, cell.batch_size])
        for cell in cells
        if cell.is_speculative
        and cell.has_one_gamma
        and not cell.is_open_loop
        and reason_against(cell) is None
        and (cell.workload, cell.batch_size) in plain
    ]
    return (*(_check(rule, judged) for rule in _RULES), _long_answers(judged, measurements))


def _check(rule: _Rule, judged: Iterable[tuple[CellSummary, CellSummary]]) -> RuleCheck:
    held: list[str] = []
    misled: list[str] = []
    spoke = False
    for cell, plain in judged:
        says, found = rule.says(cell, plain), outcome(cell)
        spoke = spoke or says is not None
        if says is not None and found != "unsure":
            where = f"{cell.label} at batch {cell.batch_size}: {rule.shows(cell, plain)}, {cell.speedup:.2f}×"
            (held if says == (found == "gain") else misled).append(where)
    figure = (misled or held or ["no cell is sure of a gain or a loss" if spoke else "not reported here"])[0]
    return RuleCheck(rule.text, len(held), len(misled), figure)


def _long_answers(judged: Sequence[tuple[CellSummary, CellSummary]], measurements: Sequence[Measurement]) -> RuleCheck:
    """Of the soundest gain: prompts with outputs above the median length against the others."""
    text = "long answers gain more than short ones"
    gains = [cell for cell, _ in judged if outcome(cell) == "gain"]
    if not gains:
        return RuleCheck(text, 0, 0, "no cell is sure of a gain")
    cell = max(gains, key=lambda c: c.speedup or 0)
    arm, plain = (
        [
            m
            for m in measurements
            if (m.cell.workload, m.cell.batch_size, m.cell.request_rate) == (cell.workload, cell.batch_size, None)
            and m.cell.speculation.name == method
            and m.cell.speculation.gamma == gamma
            and (method != "none" or m.cell.speculation.is_baseline)
        ]
        for method, gamma in ((cell.method, cell.gamma), ("none", 0))
    )
    pairs = pair(arm, plain)
    ours, theirs = work(m for m, _ in pairs), work(m for _, m in pairs)
    requests = Counter(t.prompt_id for _, m in pairs for t in m.traces if t.error is None)
    lengths = {prompt: theirs[prompt].tokens / requests[prompt] for prompt in ours.keys() & theirs.keys()}
    middle = median(lengths.values()) if lengths else 0.0
    long, short = ({p for p, n in lengths.items() if (n > middle) == above} for above in (True, False))
    ratios = [_ratio(ours, theirs, prompts) for prompts in (long, short)]
    if ratios[0] is None or ratios[1] is None:
        return RuleCheck(text, 0, 0, "all answers are about as long")
    (much, much_shifts), (little, little_shifts) = ratios[0], ratios[1]
    count = min(len(much_shifts), len(little_shifts))
    # The two halves are other prompts, so their draws are independent: paired in another order.
    differences = much - little + much_shifts[:count] - little_shifts[:count][::-1]
    low, high = np.quantile(differences, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    figure = (
        f"{cell.label} at batch {cell.batch_size}: {math.exp(much):.2f}× above {middle:.0f} tokens, "
        f"{math.exp(little):.2f}× up to there"
    )
    return RuleCheck(text, int(low > 0), int(high < 0), figure)


def _ratio(
    ours: Mapping[str, Work], theirs: Mapping[str, Work], prompts: set[str]
) -> tuple[float, np.ndarray[tuple[int, ...], np.dtype[np.float64]]] | None:
    arms = tuple({p: w for p, w in arm.items() if p in prompts} for arm in (ours, theirs))
    centre, shifts = work_log_ratio(*arms), prompt_shifts(*arms)
    return None if centre is None or shifts is None else (centre, shifts)
