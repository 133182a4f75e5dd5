"""The terminal's view of a run: one compact table (80 columns are enough) and the verdict in a paragraph."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.report import figures

_OUTCOMES = {
    "EXACT": ("exact", "green"),
    "NEAR_TIE": ("near tie", "yellow"),
    "DIVERGENT": ("divergent", "bold red"),
    "NOT_CHECKED": ("unchecked", "dim"),
    "failed": ("failed", "bold red"),
}


def print_summary(summary: RunSummary, console: Console | None = None) -> None:
    """Print to the console given, or to standard output; colours only where it is a terminal."""
    (console or Console(highlight=False)).print(render_summary(summary))


def render_summary(summary: RunSummary) -> RenderableType:
    """Tables (one per workload), notes and verdict."""
    parts: list[RenderableType] = []
    workloads = list(dict.fromkeys(cell.workload for cell in summary.cells))
    for workload in workloads:
        parts += [_table(workload, [c for c in summary.cells if c.workload == workload]), Text()]
    parts += [Text(note, style="dim") for note in _notes(summary)]
    heading = Text(summary.decision.recommendation, style="bold")
    if summary.decision.method:
        heading.append(f": {summary.decision.method}, gamma {summary.decision.gamma}")
    return Group(*parts, Text(), heading, Text(summary.text))


def _table(workload: str, cells: Sequence[CellSummary]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, title=workload, title_justify="left")
    table.add_column("method", no_wrap=True)
    for name in ("batch", "tok/s", "speedup [95%]", "AL", "TPOT\nms", "cost/M"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outputs", no_wrap=True)
    for cell in cells:
        outcome, style = _OUTCOMES[cell.equivalence if cell.status == "ok" else "failed"]
        table.add_row(
            cell.label,
            str(cell.batch_size),
            figures.throughput(cell),
            figures.speedup(cell),
            figures.acceptance_length(cell),
            figures.number(cell.tpot_ms_p50, 1),
            figures.money(cell.cost_per_million_output_tokens),
            Text(outcome + ("*" if cell.marks else ""), style=style),
        )
    return table


def _notes(summary: RunSummary) -> list[str]:
    notes = []
    if currency := next((c.currency for c in summary.cells if c.currency), None):
        notes.append(f"cost/M: {currency} per million output tokens, the whole rent put on output.")
    if any(c.degenerate_requests for c in summary.cells):
        notes.append("AL (n): n degenerate requests (loops or empty) are left out of AL and latency.")
    if any(c.status == "ok" and c.output_tokens_per_s is None for c in summary.cells):
        notes.append("tok/s in parentheses: of the whole run, too short for a steady window.")
    texts = {mark.text: mark for c in summary.cells for mark in c.marks}
    counts = {text: sum(text in {m.text for m in c.marks} for c in summary.cells) for text in texts}
    notes += [f"* {text}" + (f" ({n} cells)" if n > 1 else "") for text, n in counts.items()]
    notes += [f"failed: {f.measurement}: {f.error}" for f in summary.failures]
    return notes
