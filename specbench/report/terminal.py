"""The terminal's view of a run: one compact table (80 columns are enough) and the verdict in a paragraph."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.analysis.verdict import Decision
from specbench.analysis.wording import named
from specbench.report import figures
from specbench.report.open_loop import NOTE, narrow_open_loop_rows

_OUTCOMES = {
    "EXACT": ("exact", "green"),
    "NEAR_TIE": ("near tie", "yellow"),
    "DIVERGENT": ("divergent", "bold red"),
    "NOT_CHECKED": ("unchecked", "dim"),
    "failed": ("failed", "bold red"),
    "predicted": ("predicted", "italic"),
}


def print_summary(summary: RunSummary, console: Console | None = None) -> None:
    """Print to the console given, or to standard output; colours only where it is a terminal."""
    (console or Console(highlight=False)).print(render_summary(summary))


def render_summary(summary: RunSummary) -> RenderableType:
    """Tables (one per workload), notes and verdict."""
    parts: list[RenderableType] = []
    workloads = list(dict.fromkeys(cell.workload for cell in summary.rows))
    for workload in workloads:
        cells = [c for c in summary.rows if c.workload == workload]
        parts += [_open_loop_table(workload, cells) if cells[0].is_open_loop else _table(workload, cells), Text()]
    parts += [Text(note, style="dim") for note in _notes(summary)]
    heading = Text(summary.mark, style="bold")
    if len(set(summary.by_workload.values())) > 1:
        for workload, decision in summary.by_workload.items():
            heading.append(_heading(f"{workload}: ", decision)).append("\n")
        heading.append(_heading("together: ", summary.decision))
    else:
        heading.append(_heading("", summary.decision))
    return Group(*parts, Text(), heading, Text(summary.text))


def _heading(name: str, decision: Decision) -> Text:
    heading = Text(name).append(decision.recommendation, style="bold")
    return heading.append(f": {named(decision)}") if decision.method else heading


def _table(workload: str, cells: Sequence[CellSummary]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, title=workload, title_justify="left")
    table.add_column("method", no_wrap=True)
    for name in ("batch", "tok/s", "speedup [95%]", "AL", "TPOT\np50 ms", "cost/M"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("outputs", no_wrap=True)
    for cell in cells:
        outcome, style = _OUTCOMES[cell.equivalence if cell.status == "ok" else cell.status]
        table.add_row(
            cell.label,
            str(cell.batch_size),
            figures.throughput(cell),
            figures.speedup(cell),
            figures.acceptance_length(cell),
            figures.number(cell.tpot_ms_p50, 1),
            figures.money(cell.cost_per_million_output_tokens),
            Text(outcome, style=style),
        )
    return table


def _open_loop_table(workload: str, cells: Sequence[CellSummary]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, title=workload, title_justify="left")
    rows = narrow_open_loop_rows(cells)
    for name in rows[0]:
        left, wraps = name in ("method", "outputs"), name == "goodput/s"
        table.add_column(name, justify="left" if left else "right", no_wrap=not wraps)
    for cell, row in zip(cells, rows, strict=True):
        outcome, style = _OUTCOMES[cell.equivalence if cell.status == "ok" else cell.status]
        table.add_row(*list(row.values())[:-1], Text(outcome, style=style))
    return table


def _notes(summary: RunSummary) -> list[str]:
    notes = []
    if any(c.is_open_loop for c in summary.cells):
        notes.append(f"{NOTE} Milliseconds.")
    if currency := next((c.currency for c in summary.cells if c.currency), None):
        notes.append(f"cost/M: {currency} per million output tokens, the whole rent put on output.")
    if any(c.mean_acceptance_length is not None and not c.is_open_loop for c in summary.cells):
        notes.append("AL: acceptance length, tokens per verification step, the target's own included.")
    if any(c.degenerate_requests for c in summary.cells):
        notes.append("AL (n): n degenerate requests (loops or empty) are left out of AL and latency.")
    if any(c.status == "ok" and c.output_tokens_per_s is None and not c.is_open_loop for c in summary.cells):
        notes.append("tok/s in parentheses: of the whole run, too short for a steady window.")
    rows: dict[str, list[str]] = {}
    for cell in summary.cells:
        for mark in cell.marks:
            rows.setdefault(mark.text, []).append(f"{cell.workload}, {cell.label}, {_load(cell)}")
    notes += [
        f"* {named[0]}{f' and {len(named) - 1} more' if named[1:] else ''}: {text}" for text, named in rows.items()
    ]
    if summary.early_stop:
        notes.append(figures.PREDICTED_NOTE)
    if any(c.speedup_ci_low is not None and not c.has_interval for c in summary.cells):
        notes.append("[?]: launches differ too much for an interval.")
    notes += [f"failed: {f.measurement}: {f.error}" for f in summary.failures]
    return notes


def _load(cell: CellSummary) -> str:
    return cell.load if cell.is_open_loop else f"batch {cell.batch_size}"
