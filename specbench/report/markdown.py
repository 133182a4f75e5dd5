"""The report as GitHub-flavoured Markdown, short enough for a pull request."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.report import figures
from specbench.report.inline_text import inline
from specbench.report.open_loop import NOTE, open_loop_rows
from specbench.report.plots import Plot
from specbench.report.recipe import COMMAND, config_yaml, made_with


def render_markdown(summary: RunSummary, plots: Iterable[Plot]) -> str:
    """`plots` are linked as NAME.png beside the file."""
    parts = [f"# {summary.headline}", inline(summary.text)]
    parts += [f"Run {inline(summary.run)} on {inline(summary.machine)}."]
    parts += [_cells(summary), _marks(summary.cells)]
    parts += [f"![{plot.caption}]({plot.name}.png)\n\n*{plot.caption}*" for plot in plots]
    parts += [_break_even(summary), _outputs(summary), _failures(summary), _recipe(summary)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _cells(summary: RunSummary) -> str:
    if summary.cells and summary.cells[0].is_open_loop:
        served = open_loop_rows(summary.cells)
        lines = [[c.workload, *row.values()] for c, row in zip(summary.cells, served, strict=True)]
        return f"{_table(['workload', *served[0]], lines)}\n\n{NOTE}"
    currency = next((c.currency for c in summary.cells if c.currency), None)
    header = ["workload", "method", "batch", "tok/s", "speedup [95%]", "AL [95%] (degenerate)", "accepted / drafted"]
    header += ["TTFT p50 / p95 ms", "TPOT p50 / p95 ms", f"{currency or 'cost'} / M tokens", "saving", "outputs"]
    rows = [
        [
            c.workload,
            c.label,
            str(c.batch_size),
            figures.throughput(c),
            figures.speedup(c),
            figures.acceptance_length_in_full(c),
            figures.percent(c.draft_acceptance_rate),
            f"{figures.number(c.ttft_ms_p50, 0)} / {figures.number(c.ttft_ms_p95, 0)}",
            f"{figures.number(c.tpot_ms_p50, 1)} / {figures.number(c.tpot_ms_p95, 1)}",
            figures.money(c.cost_per_million_output_tokens),
            figures.percent(None if c.saving_percent is None else c.saving_percent / 100),
            (c.equivalence if c.status == "ok" else "failed") + ("*" if c.marks else ""),
        ]
        for c in summary.cells
    ]
    note = "AL: tokens per step. In parentheses: degenerate requests (loops or empty), left out of AL and latency."
    return f"{_table(header, rows)}\n\n{note}" if rows else "No cell was measured."


def _marks(cells: Sequence[CellSummary]) -> str:
    lines = [f"- {c.label}, {c.load_in_words}, {inline(c.workload)}: {inline(m.text)}" for c in cells for m in c.marks]
    return "\\* Marked:\n\n" + "\n".join(lines) if lines else ""


def _break_even(summary: RunSummary) -> str:
    lines = [f"- {b.method} γ{b.gamma} on {inline(b.workload)}: {b.crossing.text}." for b in summary.break_even]
    return "## Break-even\n\n" + "\n".join(lines) if lines else ""


def _outputs(summary: RunSummary) -> str:
    checked = [c for c in summary.cells if c.status == "ok" and c.is_speculative]
    if not checked:
        return ""
    rows = [[c.workload, c.label, c.load, c.equivalence, c.equivalence_detail] for c in checked]
    floor = summary.noise_floor
    noise = (
        f"Noise floor: the baseline differs from itself in {floor.differing} of {floor.compared} outputs."
        if floor.compared
        else "Noise floor: not known, the baseline was measured once."
    )
    table = _table(["workload", "method", "load", "outputs", "detail"], rows)
    return f"## Are outputs unchanged?\n\n{noise}\n\n{table}"


def _failures(summary: RunSummary) -> str:
    if not summary.failures:
        return ""
    parts = ["## Failures"]
    for failure in summary.failures:
        log = failure.log_tail or "(no log)"
        title = html.escape(f"{failure.measurement}: {failure.error}".replace("\n", " "), quote=False)
        parts.append(f"<details><summary>{title}</summary>\n\n{_fenced('text', log)}\n\n</details>")
    return "\n\n".join(parts)


def _recipe(summary: RunSummary) -> str:
    made = _table(["made with", ""], [list(pair) for pair in made_with(summary)])
    config = _fenced("yaml", config_yaml(summary).rstrip())
    return f"<details><summary>How to make this run again</summary>\n\n`{COMMAND}`\n\n{config}\n\n{made}\n\n</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [
        [inline(name) for name in header],
        ["---"] * len(header),
        *([inline(value) for value in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _fenced(language: str, text: str) -> str:
    fence = "`" * max(3, _longest_run_of_ticks(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run_of_ticks(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
