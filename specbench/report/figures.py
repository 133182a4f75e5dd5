"""How figures are written, everywhere the same: an en dash where nothing was reported."""

from __future__ import annotations

from specbench.analysis.cell_summary import CellSummary

NOT_REPORTED = "–"
PREDICTED_NOTE = "~: predicted from the cells that were measured, with an interval of 90%; no verdict rests on it."


def number(value: float | None, decimals: int) -> str:
    """Fixed decimals, thousands separated."""
    return NOT_REPORTED if value is None else f"{value:,.{decimals}f}"


def throughput(cell: CellSummary) -> str:
    """Output tokens per second; in parentheses where only the whole run, ramp and drain included, gives a figure.

    A tilde stands before what is predicted.
    """
    if cell.output_tokens_per_s is None and cell.run_output_tokens_per_s is not None:
        return f"({_rate(cell.run_output_tokens_per_s)})"
    return "~" * cell.predicted + _rate(cell.output_tokens_per_s)


def money(value: float | None) -> str:
    """Two decimals from 1 on, two digits that matter below."""
    if value is None:
        return NOT_REPORTED
    return f"{value:,.2f}" if value >= 1 else f"{value:.2g}"


def percent(share: float | None) -> str:
    """A share of 1 as a percentage. Adding 0 turns -0 into 0."""
    return NOT_REPORTED if share is None else f"{round(share, 2) + 0.0:.0%}"


def gibibytes(size: int | None) -> str:
    return NOT_REPORTED if size is None else f"{size / 2**30:.2f}"


def speedup(cell: CellSummary) -> str:
    """With its 95% interval: `1.42 [1.35, 1.50]`; a star where a mark speaks of the cell, a tilde where predicted."""
    star = "*" if cell.marks else ""
    if cell.speedup is None or cell.is_baseline or cell.speedup_ci_low is None:
        return number(cell.speedup, 2) + star
    about = "~" * cell.predicted
    if not cell.has_interval:
        return f"{about}{cell.speedup:.2f} [?]{star}"
    return f"{about}{cell.speedup:.2f} [{cell.speedup_ci_low:.2f}, {cell.speedup_ci_high:.2f}]{star}"


def acceptance_length(cell: CellSummary) -> str:
    """With the number of degenerate requests that it leaves out: `2.31 (3)`."""
    left_out = f" ({cell.degenerate_requests})" if cell.degenerate_requests else ""
    return f"{number(cell.mean_acceptance_length, 2)}{left_out}"


def acceptance_length_in_full(cell: CellSummary) -> str:
    """The same with its 95% interval over prompts: `2.31 [2.12, 2.50] (3)`."""
    low, high = cell.mean_acceptance_length_ci_low, cell.mean_acceptance_length_ci_high
    if low is None or high is None:
        return acceptance_length(cell)
    figure, left_out, degenerate = acceptance_length(cell).partition(" (")
    return f"{figure} [{low:.2f}, {high:.2f}]{left_out}{degenerate}"


def _rate(value: float | None) -> str:
    return number(value, 0 if value is not None and value >= 1_000 else 1)
