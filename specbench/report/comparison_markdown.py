"""A comparison as GitHub-flavoured Markdown, for a pull request or a job's summary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specbench.comparison import wording
from specbench.comparison.result import Against, Comparison, Effect
from specbench.report.fitting import cut, fitted
from specbench.report.inline_text import inline

_WHOLE = "`specbench compare --json`"


def render_markdown(comparison: Comparison) -> str:
    """What was compared, what changed, what that did. Findings come before what shows none."""
    return fitted(lambda most: "\n\n".join(part for part in _parts(comparison, most) if part) + "\n")


def _parts(comparison: Comparison, most: int | None) -> Iterator[str]:
    yield f"## {'SIMULATED: ' if comparison.is_simulated else ''}Runs compared"
    yield _list(map(wording.heading, comparison.runs), most)
    for against in comparison.against:
        yield f"### {inline(wording.summary(against))}"
        yield _changes(against, most)
        yield _table(against, most)
        yield _folded("Not judged", wording.reasons(against), most)
        yield _folded("Outputs against plain decoding, where that changed", map(str, against.outputs), most)
        yield _folded("Not compared", [*against.left_out, *wording.only(against)], most)
    yield _list((*wording.notes(comparison), *comparison.caveats), most)


def _changes(against: Against, most: int | None) -> str:
    if not against.changes:
        return "Nothing else is known to have changed."
    title = f"What changed ({len(against.changes)})"
    return _folded(title, map(str, against.changes), most)


def _table(against: Against, most: int | None) -> str:
    if not against.effects:
        return ""
    order = sorted(against.effects, key=_rank)
    header = ("metric", *wording.columns(against.run))
    lines = [f"| {' | '.join(map(inline, (e.metric, *wording.row(e))))} |" for e in order]
    top = [f"| {' | '.join(header)} |", "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"]
    return "\n".join([*top, *cut(lines, most, _WHOLE)])


def _rank(effect: Effect) -> int:
    return ("worse", "better", "none found", "same", "not judged").index(effect.outcome)


def _folded(title: str, items: Iterable[str], most: int | None) -> str:
    text = _list(items, most)
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" if text else ""


def _list(items: Iterable[str], most: int | None) -> str:
    return "\n".join(cut([f"- {inline(item)}" for item in items], most, _WHOLE))
