"""Writes a run's report: one file per reader, be it a person, a pull request, a spreadsheet or a program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specbench.analysis.summary import summarize
from specbench.errors import SpecbenchError
from specbench.report.csv_file import render_csv
from specbench.report.html import render_html
from specbench.report.markdown import render_markdown
from specbench.report.plots import draw_plots, png
from specbench.store.atomic import replacing
from specbench.store.cell_file import request_table, write_table
from specbench.store.run import RunStore, write_json


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """The files of a report."""

    html: Path
    markdown: Path
    csv: Path
    json: Path
    requests: Path
    plots: tuple[Path, ...]


def write_report(run_dir: Path, out_dir: Path | None = None) -> ReportPaths:
    """Write report.html, report.md, report.json, cells.csv, requests.parquet and the plots; into the run by default.

    Raises SpecbenchError if `run_dir` is no run or `out_dir` cannot be written.
    """
    store, out = RunStore.open(run_dir), out_dir or run_dir
    summary, measurements = summarize(store), store.measurements()
    plots = draw_plots(summary, measurements)
    paths = ReportPaths(
        html=out / "report.html",
        markdown=out / "report.md",
        csv=out / "cells.csv",
        json=out / "report.json",
        requests=out / "requests.parquet",
        plots=tuple(out / f"{plot.name}.png" for plot in plots),
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for plot, path in zip(plots, paths.plots, strict=True):
            _write(path, png(plot))
        _write(paths.html, render_html(summary, plots).encode())
        _write(paths.markdown, render_markdown(summary, plots).encode())
        _write(paths.csv, render_csv(summary.to_json()).encode())
        write_json(paths.json, summary.to_json())
        write_table(paths.requests, request_table(measurements))
    except OSError as error:
        raise SpecbenchError(f"cannot write the report to {out}: {error.strerror}. Choose another --output.") from error
    return paths


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as partial:
        partial.write_bytes(content)
