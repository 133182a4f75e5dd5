"""A verification in plain text: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.equivalence.sampling.battery import ArmResult
from specbench.equivalence.sampling.likelihood import LikelihoodCheck
from specbench.equivalence.sampling.results import TestResult
from specbench.tasks.text import lines_of
from specbench.verification.result import Verification
from specbench.verification.task import TaskVerification

_COLUMNS = ("test", "arm", "n", "statistic", "p", "p (Holm)", "TV [95 %]", "would have found")


def task_lines(found: TaskVerification) -> list[str]:
    s = found.settings
    sampled = f"temperature {s['temperature']:g}, top-p {s['top_p']:g}" if s["temperature"] else "greedy"
    return [
        f"{found.outcome}: {', '.join(found.task.arms)} against none on {found.engine} ({s['dtype']}, {sampled})",
        *(f"note: {note}" for note in found.notes),
        "",
        *lines_of(found.task),
    ]


def lines(found: Verification) -> list[str]:
    s = found.settings
    sampled = f"temperature {s['temperature']:g}, top-p {s['top_p']:g}" if found.sampling else "greedy"
    return [
        f"{found.outcome}: {', '.join(found.greedy.arms)} against none on {found.engine} ({s['dtype']}, {sampled})",
        *(f"note: {note}" for note in found.notes),
        "",
        *_greedy(found),
        *_sampling(found),
        *_seeds(found),
    ]


def _greedy(found: Verification) -> Iterable[str]:
    floor = found.greedy.floor
    yield "Greedy decoding, token ids and lengths against the baseline's"
    for name, arm in found.greedy.arms.items():
        yield f"  {name}: {arm.verdict}; {arm.detail}"
    yield f"  noise floor: the baseline differs from itself in {floor.differing} of {floor.compared} outputs"


def _sampling(found: Verification) -> Iterable[str]:
    verdict = found.sampling
    if verdict is None:
        return
    yield ""
    yield f"Sampling: {verdict.outcome}; {verdict.reason}"
    yield f"  power: {verdict.power_statement} (level {verdict.level:g} over all tests, Holm)"
    if found.control is not None:
        yield f"  {found.control.name} against its log-probabilities: {_p(found.control.p)} (n {found.control.n})"
    for name, rate in found.acceptance.items():
        yield f"  {name}: {'acceptance not reported' if rate is None else f'{rate:.1%} of drafted tokens accepted'}"
    for name, arm in verdict.arms.items():
        if arm.likelihood is not None and arm.likelihood.difference is not None:
            yield f"  {name}: {_likelihood(arm.likelihood)}"
    rows = [_row(name, test) for name, arm in verdict.arms.items() for test in arm.tests]
    if rows:
        yield ""
        yield from _table([_COLUMNS, *rows])
    yield from (f"  {name}, {test.name}: {test.detail}" for name, test in _untested(verdict.arms.items()))


def _likelihood(check: LikelihoodCheck) -> str:
    equal = "equal within" if check.is_equivalent else "not shown equal within"
    more = "" if check.is_equivalent else f"; some {check.tokens_needed:,} tokens could show it"
    return (
        f"mean log-likelihood {check.difference:+.4f} ± {check.error or 0:.4f} nats per token off the target's, "
        f"{equal} {check.margin:g} (TOST, n {check.n}{more})"
    )


def _row(arm: str, test: TestResult) -> tuple[str, ...]:
    if test.p is None:
        return test.name, arm, "–", "–", "not made", "–", "–", "–"
    effect, detectable = test.effect, test.detectable
    what = "leak" if effect is None else "TV"
    return (
        test.name,
        arm,
        str(test.n),
        "–" if test.statistic is None else f"{test.statistic:.4g}",
        f"{test.p:.2g}",
        "–" if test.adjusted is None else f"{test.adjusted:.2g}",
        "–" if effect is None else f"{effect.tv:.3f} [{effect.low:.3f}, {effect.high:.3f}]",
        "–" if detectable is None else f"{what} ≥ {detectable:.3f}",
    )


def _untested(arms: Iterable[tuple[str, ArmResult]]) -> Iterable[tuple[str, TestResult]]:
    """Tests that were not made, or have something to say of what they found."""
    return ((name, test) for name, arm in arms for test in arm.tests if test.p is None or test.name == "support")


def _seeds(found: Verification) -> Iterable[str]:
    if found.seeds is None:
        return
    yield ""
    promise = "every method gives the same tokens" if found.seeds_promised else "nothing across methods"
    yield f"Seeds: what is promised here is {promise}; what was seen, with the same seeds"
    for name, seeds in found.seeds.items():
        broken = " (PROMISE BROKEN)" if name in found.broken_promises else ""
        yield f"  {name}: {seeds.sentence()}{broken}"


def _table(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _p(value: float | None) -> str:
    return "not made" if value is None else f"p {value:.2g}"
