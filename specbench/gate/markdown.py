"""A gate's findings as GitHub-flavoured Markdown, for a job's summary or a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from specbench.comparison.wording import number, percent
from specbench.gate.result import FAILING, UNDECIDED, Finding, GateResult
from specbench.report.inline_text import inline

_MOST_ROWS = 200
"""GitHub takes a summary of 1 MiB; nobody reads half of that."""

_SIGNS = {"failed": "❌ failed", "regression": "❌ regression", "inconclusive": "❔ inconclusive"}


def render_markdown(result: GateResult) -> str:
    """Verdict, what is wrong or open in sentences, a table of all, what differs between the sides."""
    against = f" against {inline(result.baseline)}" if result.baseline else ""
    simulated = "SIMULATED: " if result.simulated else ""
    parts = [f"## {simulated}Gate: {result.verdict}", f"{inline(result.candidate)}{against}. {summary(result)}"]
    parts.append(_list(f"**{inline(str(f.cell))}**: {inline(f.text)}" for f in result.of(FAILING)))
    parts.append(_list(f"**{inline(str(f.cell))}**: {inline(f.text)}" for f in result.of(UNDECIDED)))
    parts.append(_table(result))
    parts.append(_folded("What differs between the two", result.changes))
    parts.append(_folded("Not compared", result.not_compared))
    parts.append(_list(inline(caveat) for caveat in result.caveats))
    return "\n\n".join(part for part in parts if part) + "\n"


def summary(result: GateResult) -> str:
    """How many of the findings are what, and what would settle the rest."""
    total, failing, undecided = (len(found) for found in (result.findings, result.of(FAILING), result.of(UNDECIDED)))
    text = f"Of {total} comparisons {failing} failed, {undecided} undecided"
    text += f" (a loss of up to {result.margin * 100:g}% is none)."
    if result.replicates_needed:
        text += f" About {result.replicates_needed} sound replicates of each side would decide."
    return text


def _table(result: GateResult) -> str:
    order = sorted(result.findings, key=lambda f: (f.outcome not in FAILING, f.outcome not in UNDECIDED))
    lines = [
        "| cell | metric | before | after | change | outcome |",
        "| --- | --- | ---: | ---: | ---: | --- |",
        *(f"| {' | '.join(map(inline, row(finding)))} |" for finding in order[:_MOST_ROWS]),
    ]
    if len(order) > _MOST_ROWS:
        lines += ["", f"{len(order) - _MOST_ROWS} more passed or are in the sentences above."]
    return "\n".join(lines)


def row(finding: Finding) -> Sequence[str]:
    """Cell, metric, before, after, change with its interval, outcome."""
    before, after = number(finding.before), number(finding.after)
    change = "–"
    if finding.change is not None and finding.low is not None and finding.high is not None:
        if finding.about == "min_speedup":
            change = f"{finding.change:.2f} [{finding.low:.2f}, {finding.high:.2f}]"
        else:
            ends = f"{percent(finding.low)}, {percent(finding.high)}"
            change = f"{percent(finding.change)} [{ends}]"
    return str(finding.cell), finding.about, before, after, change, _SIGNS.get(finding.outcome, finding.outcome)


def _folded(title: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    return f"<details><summary>{title}</summary>\n\n{_list(map(inline, items))}\n\n</details>"


def _list(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
