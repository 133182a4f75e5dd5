"""`specbench history`: trends over a folder of runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.history.series import Figure, Point, Series

_WHICH = "Which cells (comma-separated; all by default)"


def history(
    runs: Path = typer.Option(Path("reports"), metavar="DIR", help="Folder that the runs are in."),
    method: str | None = typer.Option(None, help="Such as ngram,eagle3.", rich_help_panel=_WHICH),
    gamma: str | None = typer.Option(None, help="Such as 2,4.", rich_help_panel=_WHICH),
    batch_size: str | None = typer.Option(None, help="Such as 1,8.", rich_help_panel=_WHICH),
    workload: str | None = typer.Option(None, help="Such as chat,structured.", rich_help_panel=_WHICH),
    simulated: bool = typer.Option(
        False, "--simulated", help="Simulated runs as well; else they are left out.", rich_help_panel=_WHICH
    ),
    metric: str | None = typer.Option(
        None,
        help="Comma-separated columns of cells.csv, such as mean_acceptance_length,ttft_ms_p95; speedup by default.",
    ),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw it there: .png, .svg or .pdf."),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """How did speculation do from run to run? One table per workload, engine, target and kind of machine, newest last.

    Each row says what the run was made with that the one before was not: versions, drafters, options, prompts.
    *: marked (see the run's report). In parentheses: marked as no evidence. Runs that cannot be read are named on
    stderr.

    Example: specbench history --method ngram --batch-size 1,8 --plot ngram.png

    Example: specbench history --runs ci/runs --metric speedup,mean_acceptance_length --workload chat

    Keys of --json: metrics; left_out, a list of sentences; series, a list of {machine, backend, target, workload,
    temperature, batch_size, request_rate, method, gamma, drafter, as_deployed, again, points}; points are a list of
    {run, created_at, specbench_version, engine, simulated, status, marks, changed, figures}; figures have for each
    metric {value, low, high}.
    """
    import json

    from specbench.cli.folder import notes_on_copies, open_folder, warn
    from specbench.cli.options import whole_numbers, words
    from specbench.history.trends import Selection, trends

    selection = Selection(
        workload=tuple(words(workload, "--workload")) if workload else (),
        method=tuple(words(method, "--method")) if method else (),
        gamma=tuple(whole_numbers(gamma, "--gamma")) if gamma else (),
        batch_size=tuple(whole_numbers(batch_size, "--batch-size")) if batch_size else (),
        simulated=simulated,
    )
    with open_folder(runs) as folder:
        found = trends(folder, selection, words(metric, "--metric") if metric else ())
    notes = notes_on_copies(found.copies)
    if found.simulated_runs:
        notes.append(f"{found.simulated_runs} simulated runs are left out; --simulated shows them.")
        warn(notes[-1])
    for run, measured, planned in found.incomplete:
        warn(f"{run} is incomplete: {measured} of {planned} measurements are there, and it stands with those.")
    if json_output:
        record = {
            "metrics": found.metrics,
            "left_out": [*folder.problems, *notes],
            "series": [s.to_json() for s in found.series],
        }
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(found.series, found.metrics)
    if plot is not None:
        from specbench.report.trends import write_trends

        write_trends(plot, found.series, found.metrics)
        if not json_output:
            typer.echo(f"Plot: {plot}")


def _print(series: Iterable[Series], metrics: tuple[str, ...]) -> None:
    from itertools import groupby

    from specbench.cli.table import print_table

    columns = ("load", "method", "run", "made", *metrics, "changed since the run before")
    for place, group in groupby(series, key=lambda s: s.place):
        print_table(f"{', '.join(metrics)}; {place}", columns, [_row(s, p, metrics) for s in group for p in s.points])


def _row(series: Series, point: Point, metrics: tuple[str, ...]) -> tuple[str, ...]:
    made = point.created_at.strftime("%Y-%m-%d %H:%M") if point.created_at else "–"
    figures = (_figure(point, point.figures.get(metric)) for metric in metrics)
    return series.load, series.label, point.run, made, *figures, _changes(point)


def _figure(point: Point, figure: Figure | None) -> str:
    if figure is None:
        return "failed" if point.status == "failed" else "–"
    text = f"{figure.value:.4g}"
    if figure.low is not None and figure.high is not None:
        text += f" [{figure.low:.4g}, {figure.high:.4g}]" if figure.has_interval else " [?]"
    return f"({text})" if point.is_void else f"{text}*" if point.marks else text


def _changes(point: Point) -> str:
    more = f"; {len(point.changed) - 2} more" if len(point.changed) > 2 else ""
    return "; ".join(point.changed[:2]) + more
