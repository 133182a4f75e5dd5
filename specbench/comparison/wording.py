"""Comparisons in words: figures, changes and findings as tables and sentences show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from specbench.comparison.result import OUTCOMES, Against, Comparison, Effect, Run
from specbench.comparison.snapshot import CellKey

_MOST_FACTOR = 1.2
"""Up to here a rise and the fall that undoes it are about the same percentage."""


def columns(run: str) -> tuple[str, ...]:
    """Of a table that holds this run against the reference."""
    return "cell", "load", "A", run, "change", "p (Holm)", "finding"


def heading(run: Run) -> str:
    """`B reports/new, made 2030-01-01T00:00, 5 replicates, on …`."""
    made = f", made {run.created_at[:16]}" if run.created_at else ""
    several = "1 replicate" if run.replicates == 1 else f"{run.replicates} replicates"
    return f"{run.letter} {run.path}{made}, {several}, on {run.machine}"


def summary(against: Against) -> str:
    """Of how many figures is what."""
    if against.refused:
        return f"{against.run} against A: not comparable: {'; '.join(against.refused)}."
    words = {"none found": "without a difference found", "same": "the same"}
    counts = ", ".join(f"{n} {words.get(o, o)}" for o in OUTCOMES if (n := against.count(o)))
    figures = len(against.effects)
    return f"{against.run} against A: of {figures} figure{'' if figures == 1 else 's'} {counts or 'none'}."


def tables(comparison: Comparison, against: Against) -> Iterable[tuple[str, list[Sequence[str]]]]:
    """By metric: its name, and a row of `columns` for each cell."""
    order = {name: i for i, name in enumerate(comparison.metrics)}
    effects = sorted(against.effects, key=lambda e: order[e.metric])
    for metric, found in groupby(effects, key=lambda e: e.metric):
        yield metric, [row(effect) for effect in found]


def row(effect: Effect) -> Sequence[str]:
    return (
        cell(effect),
        effect.cell.load,
        value(effect.metric, effect.before),
        value(effect.metric, effect.after),
        change(effect),
        p_value(effect.p_holm),
        finding(effect),
    )


def cell(effect: Effect) -> str:
    """Workload and arm; of two arms both."""
    arms = dict.fromkeys((effect.cell.arm, effect.other_cell.arm))
    return f"{effect.cell.workload} {' → '.join(arms)}"


def change(effect: Effect) -> str:
    """With its interval, in brackets; where that is of the inside of one launch, in parentheses."""
    if effect.change is None:
        return "–"
    if effect.low is None or effect.high is None:
        return percent(effect.change)
    ends = f"{percent(effect.low)}, {percent(effect.high)}"
    bracketed = f"({ends})" if effect.basis == "within one launch" else f"[{ends}]"
    return percent(effect.change) if effect.low == effect.high else f"{percent(effect.change)} {bracketed}"


def finding(effect: Effect) -> str:
    """What is found; where nothing is, how large a change would have been."""
    if effect.outcome != "none found" or effect.detectable is None:
        return effect.outcome
    return f"none found, sees {visible(effect.detectable)}"


def visible(factor: float) -> str:
    """`±3.1%`; of large changes, where a rise and a fall differ, `-33%/+50%`, and beyond tenfold `×12`."""
    rise, fall = (factor - 1) * 100, (1 - 1 / factor) * 100
    if factor < _MOST_FACTOR:
        return f"±{rise:.1f}%"
    return f"-{fall:.0f}%/+{rise:.0f}%" if factor < 10 else f"×{factor:.0f}"


def notes(comparison: Comparison) -> list[str]:
    """How to read the tables, as far as there is something to read."""
    level, effects = f"{comparison.level * 100:g}%", list(comparison.effects())
    found = []
    if comparison.family:
        found.append(
            f"Intervals are of each figure alone ({level}); a finding holds for all {comparison.family} figures that "
            "vary at once (Holm)."
        )
    if any(e.outcome == "none found" for e in effects):
        found.append("none found, sees ±x%: no difference was found; one of x% would have been, nine times in ten.")
    if any(e.outcome != "not judged" and e.p is None for e in effects):
        found.append("Without an interval: the same in every replicate, so that chance has no part in it.")
    if any(e.basis == "within one launch" for e in effects):
        found.append("In parentheses: an interval of the inside of one launch.")
    return found


def reasons(against: Against) -> list[str]:
    """Why figures are not judged, each reason once with the cells that it is of."""
    by_text: dict[str, list[str]] = {}
    for e in against.effects:
        if e.text:
            by_text.setdefault(e.text, []).append(f"{e.metric}, {cell(e)}, {e.cell.load}")
    return [
        f"{of[0]}{f' and {len(of) - 1} more' if of[1:] else ''}: {text.removesuffix('.')}."
        for text, of in by_text.items()
    ]


def only(against: Against) -> list[str]:
    """Cells that only one side has, by arm and workload."""
    sides = (("A", against.only_in_reference), (against.run, against.only_here))
    return [f"only in {letter}: {text}" for letter, keys in sides for text in _grouped(keys)]


def _grouped(keys: Sequence[CellKey]) -> list[str]:
    loads: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        loads.setdefault((key.workload, key.arm), []).append(key.load)
    return [f"{workload} {arm}, {', '.join(of)}" for (workload, arm), of in loads.items()]


def value(metric: str, figure: float | None) -> str:
    """In the metric's own unit, but bytes as GiB."""
    if figure is None or "_bytes" not in metric:
        return number(figure)
    return f"{figure / 2**30:.2f} GiB"


def number(value: float | None) -> str:
    """Four digits."""
    return "–" if value is None else f"{value:,.1f}" if value >= 1000 else f"{value:.4g}"


def percent(ratio: float | None) -> str:
    """A ratio as a change: .9 is -10.0%. Adding 0 turns -0 into 0."""
    return "–" if ratio is None else f"{round((ratio - 1) * 100, 1) + 0.0:+.1f}%"


def p_value(p: float | None) -> str:
    return "–" if p is None else "<.001" if p < 0.001 else f"{p:.3f}".removeprefix("0")
