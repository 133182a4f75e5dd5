"""What a task says of each arm, in plain text."""

from __future__ import annotations

from collections.abc import Iterable

from specbench.tasks.check import ArmCheck, Paired, Share, TaskCheck


def lines_of(check: TaskCheck) -> Iterable[str]:
    """A paragraph per arm: the verdict, what moved, and what the figures can rule out."""
    yield f"Task {check.name}, scored by {check.how}; not worse is a drop of at most {_points(check.max_drop)} points"
    if check.stopped:
        programs = "1 program was" if check.stopped == 1 else f"{check.stopped} programs were"
        yield f"{programs} stopped by the clock, which counts as wrong; on a quieter machine that may end otherwise"
    for name, arm in check.arms.items():
        yield ""
        yield f"  {name}: {arm.outcome}; {_reason(arm)}"
        yield f"    score {_share(arm.paired.second)}, without speculation {_share(arm.paired.first)}"
        yield f"    {_moved(arm)}"
        yield f"    {_bounds(arm)}"
        if arm.again is not None:
            yield f"    plain decoding beside itself: {_flips(arm.again)}"
        if arm.cut:
            outputs = f"{arm.cut} of {arm.paired.outputs} outputs"
            yield f"    {outputs} were cut by the token limit: raise --max-tokens if answers come later"
        if arm.missing:
            yield f"    {arm.missing} prompts have an output on one side alone, and are left out"


def _reason(arm: ArmCheck) -> str:
    paired = arm.paired
    if not paired.diverged:
        return "all outputs are the same, and so is every score"
    if arm.outcome == "WORSE":
        return f"the score fell by {_points(-paired.difference)} points, which is more than chance"
    if arm.outcome == "NOT WORSE":
        moved = "; it rose by more than chance" if arm.adjusted < arm.level and paired.difference > 0 else ""
        return f"a drop of more than {_points(-min(0.0, paired.low))} points is ruled out ({_sure(arm)}){moved}"
    if paired.first.score <= arm.max_drop:
        return f"plain decoding scores {paired.first.score:.1%}: no drop can be seen, take a task that the model can do"
    more = f"; about {arm.prompts_needed} prompts like these would" if arm.prompts_needed else ""
    return f"a drop of more than {_points(arm.max_drop)} points is not ruled out{more}"


def _moved(arm: ArmCheck) -> str:
    tokens = f" ({arm.equivalence.verdict})" if arm.equivalence is not None else ""
    adjusted = f" ({arm.adjusted:.2g} over all arms)" if arm.adjusted != arm.paired.p else ""
    return f"{_flips(arm.paired, tokens)}, p = {arm.paired.p:.2g}{adjusted}"


def _flips(paired: Paired, tokens: str = "") -> str:
    return (
        f"{paired.diverged} of {paired.prompts} prompts diverged{tokens}; of these {paired.lost} scored less and "
        f"{paired.gained} more"
    )


def _bounds(arm: ArmCheck) -> str:
    paired = arm.paired
    found = (
        "no drop of this score would have been found"
        if paired.detectable is None
        else f"a drop of {_points(paired.detectable)} points would have been found (80 % power)"
    )
    low, high = _points(paired.low, "+"), _points(paired.high, "+")
    return f"difference {_points(paired.difference, '+')} points, {_sure(arm)} interval [{low}, {high}]; {found}"


def _sure(arm: ArmCheck) -> str:
    return f"{100 * (1 - arm.level):g} %"


def _share(share: Share) -> str:
    return f"{share.score:.1%} [{share.low:.1%}, {share.high:.1%}]"


def _points(share: float, sign: str = "") -> str:
    return f"{100 * share:{sign}.1f}"
