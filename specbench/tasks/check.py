"""The verdict on a task: what each arm scored beside plain decoding, prompt by prompt, and whether that moved."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from statistics import fmean
from typing import Any, Literal

from specbench.analysis.multiplicity import holm
from specbench.equivalence.greedy import Equivalence
from specbench.errors import SpecbenchError
from specbench.replay.records import RequestTrace
from specbench.tasks.paired import LEVEL, detectable_drop, difference_interval, p_value, score_interval
from specbench.tasks.scoring import Task

Outcome = Literal["NOT WORSE", "WORSE", "INCONCLUSIVE"]
EXIT_CODES: Mapping[Outcome, int] = {"NOT WORSE": 0, "WORSE": 3, "INCONCLUSIVE": 4}

MAX_DROP = 0.02


@dataclass(frozen=True, slots=True)
class Share:
    """A mean score with its interval at the check's level."""

    score: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one arm is judged by. again: the baseline once more; equivalence: of its tokens, None where that has no
    answer (sampled outputs)"""

    baseline: Sequence[RequestTrace]
    arm: Sequence[RequestTrace]
    again: Sequence[RequestTrace] = ()
    equivalence: Equivalence | None = None


@dataclass(frozen=True, slots=True)
class Paired:
    """Two sets of outputs of the same prompts.

    prompts: with an output on both sides · outputs: of the second set, of these prompts
    diverged: prompts whose outputs are not the first set's, each as often · lost, gained: whose score fell, rose
    difference, low, high: of the mean score, second − first · p: of no difference, two-sided
    detectable: least drop that would have been found with 80 % power beside all arms; None where none could
    """

    prompts: int
    outputs: int
    first: Share
    second: Share
    diverged: int
    lost: int
    gained: int
    difference: float
    low: float
    high: float
    p: float
    detectable: float | None


@dataclass(frozen=True, slots=True)
class ArmCheck:
    """One arm beside the baseline. again: the baseline beside itself, where it ran twice
    adjusted: p over all arms (Holm) · cut: outputs that the token limit ended · missing: prompts without a pair
    """

    paired: Paired
    again: Paired | None
    equivalence: Equivalence | None
    cut: int
    missing: int
    max_drop: float
    level: float
    adjusted: float = field(default=1.0)

    @property
    def outcome(self) -> Outcome:
        """WORSE: fewer points, and more than chance. NOT WORSE: a drop of more than `max_drop` is ruled out."""
        if not self.paired.diverged:
            return "NOT WORSE"
        if self.adjusted < self.level and self.paired.difference < 0:
            return "WORSE"
        can_show = self.paired.first.score > self.max_drop
        return "NOT WORSE" if can_show and self.paired.low >= -self.max_drop else "INCONCLUSIVE"

    @property
    def prompts_needed(self) -> int | None:
        """About how many prompts like these would rule out a drop of `max_drop`; None where no number would."""
        room = self.max_drop + self.paired.difference
        if room <= 0 or self.paired.first.score <= self.max_drop:
            return None
        return round(self.paired.prompts * ((self.paired.difference - self.paired.low) / room) ** 2)

    def to_json(self) -> dict[str, Any]:
        paired = asdict(self.paired)
        return {
            "verdict": self.outcome,
            **{name: paired[name] for name in ("prompts", "outputs", "diverged", "lost", "gained")},
            "equivalence": None if self.equivalence is None else self.equivalence.verdict,
            "baseline": paired["first"],
            "score": paired["second"],
            "difference": {name: paired[name] for name in ("difference", "low", "high")},
            "p": self.paired.p,
            "p_adjusted": self.adjusted,
            "detectable_drop": self.paired.detectable,
            "prompts_needed": self.prompts_needed,
            "truncated_outputs": self.cut,
            "unpaired_prompts": self.missing,
            "baseline_again": None
            if self.again is None
            else {name: getattr(self.again, name) for name in ("prompts", "diverged", "lost", "gained", "difference")},
        }


@dataclass(frozen=True, slots=True)
class TaskCheck:
    """What a task says of every arm. name: the file's · how: the scores come about

    stopped: programs that the clock stopped, which count as wrong
    """

    name: str
    how: str
    max_drop: float
    level: float
    arms: Mapping[str, ArmCheck]
    stopped: int = 0

    @property
    def outcome(self) -> Outcome:
        """The worst of the arms."""
        found = {arm.outcome for arm in self.arms.values()}
        return "WORSE" if "WORSE" in found else "INCONCLUSIVE" if "INCONCLUSIVE" in found else "NOT WORSE"

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "score": self.how,
            "max_drop": self.max_drop,
            "level": self.level,
            "stopped_programs": self.stopped,
            "arms": {name: arm.to_json() for name, arm in self.arms.items()},
        }


def check_task(task: Task, arms: Mapping[str, Outputs], max_drop: float = MAX_DROP, level: float = LEVEL) -> TaskCheck:
    """Score all outputs and hold every arm against its baseline. Raises SpecbenchError where nothing can be paired."""
    given = [
        _answered(traces) for outputs in arms.values() for traces in (outputs.baseline, outputs.arm, outputs.again)
    ]
    scores = task.scores([(trace.prompt_id, trace.text) for traces in given for trace in traces])
    checks = {name: _check(name, outputs, scores, max_drop, level, len(arms)) for name, outputs in arms.items()}
    adjusted = holm({name: check.paired.p for name, check in checks.items()})
    return TaskCheck(
        name=task.workload.name,
        how=task.how,
        max_drop=max_drop,
        level=level,
        arms={name: replace(check, adjusted=adjusted[name]) for name, check in checks.items()},
        stopped=len(task.stopped),
    )


def _check(
    name: str, outputs: Outputs, scores: Mapping[tuple[str, str], float], max_drop: float, level: float, arms: int
) -> ArmCheck:
    paired = pair(outputs.baseline, outputs.arm, scores, level, arms)
    if paired is None:
        raise SpecbenchError(f"{name}: no prompt has an output both with and without speculation.")
    return ArmCheck(
        paired=paired,
        again=pair(outputs.baseline, outputs.again, scores, level),
        equivalence=outputs.equivalence,
        cut=sum(trace.finish_reason == "length" for trace in _answered(outputs.arm)),
        missing=len({trace.prompt_id for trace in (*outputs.baseline, *outputs.arm)}) - paired.prompts,
        max_drop=max_drop,
        level=level,
    )


def pair(
    first: Iterable[RequestTrace],
    second: Iterable[RequestTrace],
    scores: Mapping[tuple[str, str], float],
    level: float = LEVEL,
    arms: int = 1,
) -> Paired | None:
    """Two sets of outputs prompt by prompt; None where no prompt has outputs in both.

    Several outputs of a prompt are one score, their mean: they are no independent evidence.
    arms: that are judged at once: a drop must be found by Holm's strictest step among them
    """
    a, b = _by_prompt(first), _by_prompt(second)
    shared = [prompt for prompt in a if prompt in b]
    if not shared:
        return None
    means = [[fmean(scores[id, trace.text] for trace in side[id]) for id in shared] for side in (a, b)]
    differences = [after - before for before, after in zip(*means, strict=True)]
    n, lost, gained = len(shared), sum(d < 0 for d in differences), sum(d > 0 for d in differences)
    shares = [Share(fmean(side), *score_interval(sum(side), n, level)) for side in means]
    low, high = difference_interval(differences, level)
    return Paired(
        prompts=n,
        outputs=sum(len(b[id]) for id in shared),
        first=shares[0],
        second=shares[1],
        diverged=sum(_shares(a[id]) != _shares(b[id]) for id in shared),
        lost=lost,
        gained=gained,
        difference=fmean(differences),
        low=low,
        high=high,
        p=p_value(differences),
        detectable=detectable_drop(n, 2 * min(lost, gained) / n, shares[0].score, level / arms),
    )


def _by_prompt(traces: Iterable[RequestTrace]) -> dict[str, list[RequestTrace]]:
    found = defaultdict(list)
    for trace in _answered(traces):
        found[trace.prompt_id].append(trace)
    return found


def _answered(traces: Iterable[RequestTrace]) -> list[RequestTrace]:
    return [trace for trace in traces if trace.error is None]


def _shares(traces: Sequence[RequestTrace]) -> dict[object, Fraction]:
    """By output, how often it comes: which there are is not enough, one that comes more often moves the score."""
    counts = Counter(trace.text if trace.token_ids is None else trace.token_ids for trace in traces)
    return {output: Fraction(count, len(traces)) for output, count in counts.items()}
