"""The report as GitHub-flavoured Markdown, short enough for a pull request."""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence

from specbench.analysis.cell_summary import CellSummary
from specbench.analysis.summary import RunSummary
from specbench.report import figures
from specbench.report.fitting import cut, fitted
from specbench.report.inline_text import inline
from specbench.report.open_loop import NOTE, open_loop_rows
from specbench.report.plots import Plot
from specbench.report.recipe import COMMAND, config_yaml, made_with

_WHOLE = "report.html and report.json"
_MOST_LETTERS_OF_A_LOG = 1_500


def render_markdown(summary: RunSummary, plots: Iterable[Plot]) -> str:
    """`plots` are linked as NAME.png beside the file. Fits a comment on a pull request: of a large run tables are cut,
    and say where the whole is.
    """
    shown = [f"![{plot.caption}]({plot.name}.png)\n\n*{plot.caption}*" for plot in plots]
    return fitted(lambda most: "\n\n".join(part for part in _parts(summary, shown, most) if part) + "\n")


def _parts(summary: RunSummary, plots: Sequence[str], most: int | None) -> Iterator[str]:
    """most: rows of a table or a list"""
    yield f"# {summary.headline}"
    yield inline(summary.text)
    yield f"Run {inline(summary.run)} on {inline(summary.machine)}."
    yield _cells(summary, most)
    yield _marks(summary.cells, most)
    yield from plots
    yield _break_even(summary, most)
    yield _outputs(summary, most)
    yield _failures(summary, most)
    yield _recipe(summary, most)


def _cells(summary: RunSummary, most: int | None) -> str:
    if summary.cells and summary.cells[0].is_open_loop:
        served = open_loop_rows(summary.cells)
        lines = [[c.workload, *row.values()] for c, row in zip(summary.cells, served, strict=True)]
        return f"{_table(['workload', *served[0]], lines, most)}\n\n{NOTE}"
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
            (c.equivalence if c.status == "ok" else c.status) + ("*" if c.marks else ""),
        ]
        for c in summary.rows
    ]
    note = "AL: tokens per step. In parentheses: degenerate requests (loops or empty), left out of AL and latency."
    if summary.early_stop:
        note += f" {figures.PREDICTED_NOTE}"
    return f"{_table(header, rows, most)}\n\n{note}" if rows else "No cell was measured."


def _marks(cells: Sequence[CellSummary], most: int | None) -> str:
    lines = [f"- {c.label}, {c.load_in_words}, {inline(c.workload)}: {inline(m.text)}" for c in cells for m in c.marks]
    return "\\* Marked:\n\n" + "\n".join(cut(lines, most, _WHOLE)) if lines else ""


def _break_even(summary: RunSummary, most: int | None) -> str:
    lines = [f"- {b.method} γ{b.gamma} on {inline(b.workload)}: {b.crossing.text}." for b in summary.break_even]
    return "## Break-even\n\n" + "\n".join(cut(lines, most, _WHOLE)) if lines else ""


def _outputs(summary: RunSummary, most: int | None) -> str:
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
    table = _table(["workload", "method", "load", "outputs", "detail"], rows, most)
    return f"## Are outputs unchanged?\n\n{noise}\n\n{table}"


def _failures(summary: RunSummary, most: int | None) -> str:
    if not summary.failures:
        return ""
    parts = []
    for failure in summary.failures:
        log = (failure.log_tail or "(no log)")[0 if most is None else -_MOST_LETTERS_OF_A_LOG :]
        said = " ".join(f"{failure.measurement}: {failure.error}".split())
        title = html.escape(said, quote=False).replace("@", "&#64;")
        parts.append(f"<details><summary>{title}</summary>\n\n{_fenced('text', log)}\n\n</details>")
    return "\n\n".join(["## Failures", *cut(parts, most, _WHOLE)])


def _recipe(summary: RunSummary, most: int | None) -> str:
    if most == 0:
        return f"Made with `{COMMAND}`, whose configuration is in {_WHOLE}."
    made = _table(["made with", ""], [list(pair) for pair in made_with(summary)], most)
    config = _fenced("yaml", config_yaml(summary).rstrip())
    return f"<details><summary>How to make this run again</summary>\n\n`{COMMAND}`\n\n{config}\n\n{made}\n\n</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], most: int | None) -> str:
    lines = [_row(map(inline, row)) for row in rows]
    return "\n".join([_row(map(inline, header)), _row(["---"] * len(header)), *cut(lines, most, _WHOLE)])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _fenced(language: str, text: str) -> str:
    fence = "`" * max(3, _longest_run_of_ticks(text) + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _longest_run_of_ticks(text: str) -> int:
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
