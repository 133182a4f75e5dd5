"""Runs against the first of them: what changed, and what it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from specbench.analysis.cost import Economics
from specbench.analysis.statistics import LEVEL
from specbench.comparison import caveats
from specbench.comparison.figures import by_replicate, counted_unlike, why_none, within
from specbench.comparison.fingerprint import changes
from specbench.comparison.likeness import Likeness, likeness
from specbench.comparison.metrics import ACCEPTANCE, COST, METRICS, Metric, applies
from specbench.comparison.result import Against, Comparison, Effect, Outputs, Run
from specbench.comparison.sides import Side, settings_changed
from specbench.comparison.snapshot import CellFigures, CellKey
from specbench.comparison.statistics import Question, Sample, ask, judge
from specbench.errors import SpecbenchError

USUAL = ("speedup", "latency_speedup", "mean_acceptance_length", "output_tokens_per_s", "tpot_ms_p50")
"""Compared unless a user names others: every figure more makes each finding harder to reach."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """metrics: None for the usual ones, as far as the runs have them
    arms: by run, the arm whose cells stand for it (`ngram-g4`); None to compare like with like
    gpu_price: of one GPU-hour in every run; by default that of the first run that has one
    """

    metrics: tuple[str, ...] | None = None
    arms: tuple[str, ...] | None = None
    gpu_price: float | None = None
    level: float = LEVEL

    def __post_init__(self) -> None:
        if unknown := [name for name in self.metrics or () if name not in METRICS]:
            raise SpecbenchError(f"--metric: cannot compare {unknown[0]!r}. Choose from: {', '.join(METRICS)}.")
        if self.gpu_price is not None:
            Economics.from_config({"gpu_price": self.gpu_price})  # which refuses what is no price

    def compared(self) -> list[Metric]:
        return [METRICS[name] for name in dict.fromkeys(self.metrics or USUAL)]


def compare(sides: Sequence[Side], wanted: Wanted | None = None) -> Comparison:
    """Each against the first. Raises SpecbenchError, with the reasons, where nothing can be compared."""
    wanted = wanted or Wanted()
    price = _price(sides, wanted)
    _check(sides, wanted, price)
    reference, *others = sides
    met = [
        _Meeting(reference, other, wanted, arms, price)
        for other, arms in zip(others, _arms(wanted, sides), strict=True)
    ]
    asked = [list(meeting.questions()) for meeting in met]
    effects = list(judge([question for questions in asked for question in questions], wanted.level))
    against, start = [], 0
    for meeting, questions in zip(met, asked, strict=True):
        against.append(replace(meeting.against(), effects=tuple(effects[start : start + len(questions)])))
        start += len(questions)
    if not effects:
        raise SpecbenchError(" ".join(_refusal(reference, *each) for each in zip(others, against, strict=True)))
    compared = [metric for metric in wanted.compared() if any(e.metric == metric.name for e in effects)]
    return Comparison(
        runs=tuple(_run(side) for side in sides),
        against=tuple(against),
        metrics=tuple(metric.name for metric in compared),
        level=wanted.level,
        family=sum(effect.p is not None for effect in effects),
        caveats=tuple(caveats.of(sides, compared, effects, price)),
    )


class _Meeting:
    """The reference and another run: which cells meet, and what is asked of them."""

    def __init__(self, a: Side, b: Side, wanted: Wanted, arms: tuple[str, str] | None, price: float | None) -> None:
        self._a, self._b, self._wanted, self._price = a, b, wanted, price
        self._likeness: Likeness = likeness(a.snapshot, b.snapshot)
        before, after = (_by_place(side, arm) for side, arm in zip((a, b), arms or (None, None), strict=True))
        self._pairs = [(before[place], after[place]) for place in before if place in after]
        self._only = tuple(
            tuple(cell.key for place, cell in one.items() if place not in other)
            for one, other in ((after, before), (before, after))
        )

    def questions(self) -> Iterator[Question]:
        if self._likeness.refused:
            return
        for before, after in self._pairs:
            if before.workload not in self._likeness.workloads:
                for metric in self._wanted.compared():
                    yield from self._question(before, after, metric)

    def against(self) -> Against:
        """All but the effects."""
        a, b, like = self._a, self._b, self._likeness
        changed = changes(a.snapshot, b.snapshot)
        if a.snapshot.fingerprint.get("backend") == b.snapshot.fingerprint.get("backend"):
            changed = [*changed, *settings_changed(a.settings, b.settings)]
        if like.refused:
            return Against(b.letter, refused=like.refused, changes=tuple(changed))
        only_here, only_in_reference = self._only
        return Against(
            b.letter,
            changes=tuple(changed),
            left_out=tuple(self._left_out()),
            only_here=only_here,
            only_in_reference=only_in_reference,
            outputs=tuple(
                Outputs(before.key, before.equivalence, after.equivalence)
                for before, after in self._pairs
                if before.equivalence != after.equivalence and before.gamma
            ),
        )

    def _question(self, before: CellFigures, after: CellFigures, metric: Metric) -> Iterator[Question]:
        if not (applies(metric, before.key) and applies(metric, after.key) and self._likeness.allows(metric)):
            return
        effect = Effect(self._b.letter, before.key, after.key, metric.name, "not judged")
        samples = [self._sample(side, cell, metric) for side, cell in ((self._a, before), (self._b, after))]
        if not any(sample.figures for sample in samples):
            # That an engine does not report acceptance is no news; that a figure is void or missing is.
            if metric.name != ACCEPTANCE or self._wanted.metrics or before.failures or after.failures:
                yield Question(replace(effect, text=why_none(metric, before, after)), metric.more_is_better, None)
            return
        if not all(sample.figures for sample in samples) or counted_unlike(metric, before, after):
            text = counted_unlike(metric, before, after) or why_none(
                metric, *(cell for cell, s in zip((before, after), samples, strict=True) if not s.figures)
            )
            known = replace(effect, before=samples[0].mean(), after=samples[1].mean(), text=text)
            yield Question(known, metric.more_is_better, None)
            return
        same_session = self._a.is_same_run(self._b)
        yield ask(effect, *samples, more_is_better=metric.more_is_better, same_session=same_session)

    def _sample(self, side: Side, cell: CellFigures, metric: Metric) -> Sample:
        rent = Economics(self._price, side.snapshot.gpu_count)
        return Sample(by_replicate(side.snapshot, cell, metric, rent), within(side.snapshot, cell, metric))

    def _left_out(self) -> Iterator[str]:
        if not self._pairs:
            yield (
                "no cell in common. Measure the same grid, or set one arm of each run against the other with "
                "--arm, as in --arm ngram-g4,eagle3-g4"
            )
        for workload in dict.fromkeys(cell.workload for cell, _ in self._pairs):
            if workload in self._likeness.workloads:
                yield f"{workload}: other prompts under that name ({self._likeness.workloads[workload]})"
        raw = [metric.name for metric in self._wanted.compared() if not self._likeness.allows(metric)]
        if raw and self._pairs:
            yield f"{', '.join(raw)}: of another machine or engine ({'; '.join(self._likeness.elsewhere)})"


def _by_place(side: Side, arm: str | None) -> dict[CellKey, CellFigures]:
    """Cells by what must be the same in both runs: everything, or everything but the arm."""
    cells = side.snapshot.by_key()
    if arm is None:
        return cells
    chosen = {key._replace(method="", gamma=0, as_deployed=False): c for key, c in cells.items() if key.arm == arm}
    if not chosen:
        arms = ", ".join(dict.fromkeys(key.arm for key in cells))
        raise SpecbenchError(f"--arm: {side.path} has no arm {arm!r}. It has: {arms}.")
    return chosen


def _arms(wanted: Wanted, sides: Sequence[Side]) -> list[tuple[str, str] | None]:
    if wanted.arms is None:
        return [None] * (len(sides) - 1)
    first, *others = wanted.arms
    return [(first, other) for other in others]


def _check(sides: Sequence[Side], wanted: Wanted, price: float | None) -> None:
    if wanted.arms is not None and len(wanted.arms) != len(sides):
        raise SpecbenchError(
            f"--arm names one arm for each run, in their order: {len(sides)} are given, and "
            f"{len(wanted.arms)} arms ({', '.join(wanted.arms)})."
        )
    if COST in (wanted.metrics or ()) and price is None:
        raise SpecbenchError(f"--metric {COST} needs a price: add --gpu-price.")


def _price(sides: Sequence[Side], wanted: Wanted) -> float | None:
    """One for all: another price is no change of what was measured."""
    known = (wanted.gpu_price, *(side.snapshot.gpu_price for side in sides))
    return next((price for price in known if price is not None), None)


def _refusal(reference: Side, other: Side, against: Against) -> str:
    reasons = against.refused or against.left_out or ("no cell that both have has any of the metrics",)
    way_out = " Give runs of the same target, prompts and sampling." if against.refused else ""
    return f"{reference.path} and {other.path} cannot be compared: {'; '.join(reasons)}.{way_out}"


def _run(side: Side) -> Run:
    s = side.snapshot
    return Run(
        side.letter,
        str(side.path),
        s.run,
        s.created_at,
        str(s.fingerprint.get("hardware") or "an unnamed machine"),
        s.simulated,
        len(s.replicates),
    )
