"""Writes a run's report: one file per reader, be it a person, a pull request, a spreadsheet or a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from specbench.analysis.cell_table import cell_table
from specbench.analysis.summary import RunSummary
from specbench.errors import SpecbenchError
from specbench.report.csv_file import render_csv
from specbench.report.figure_file import rendered
from specbench.report.html import render_html
from specbench.report.kept_plan import kept
from specbench.report.markdown import render_markdown
from specbench.report.plots import draw_plots
from specbench.store.atomic import replacing
from specbench.store.cell_file import request_table, write_table
from specbench.store.measurement import Measurement
from specbench.store.run import MANIFEST, write_json


@dataclass(frozen=True, slots=True)
class ReportPaths:
    """The files of a report. cells: as Parquet;  requests: None where the report lies in its run, whose own table that
    is
    """

    html: Path
    markdown: Path
    csv: Path
    cells: Path
    json: Path
    requests: Path | None
    plots: tuple[Path, ...]


def write_report(
    summary: RunSummary,
    measurements: Sequence[Measurement],
    run_dir: Path,
    out_dir: Path | None = None,
    formats: Sequence[str] = ("png",),
) -> ReportPaths:
    """Write report.html, report.md, report.json, cells.csv, cells.parquet and the plots; into the run by default.

    formats: of the plots; the Markdown links PNGs, which are always there
    Elsewhere the report gets a requests.parquet as well. `measurements` are those that `summary` is of. Raises
    SpecbenchError if the files cannot be written.
    """
    out = out_dir or run_dir
    if out.resolve() != run_dir.resolve() and (out / MANIFEST).exists():
        raise SpecbenchError(f"{out} is another run: a report there would mix with its data. Choose another --output.")
    plots, kinds = draw_plots(summary, measurements), tuple(dict.fromkeys(("png", *formats)))
    paths = ReportPaths(
        html=out / "report.html",
        markdown=out / "report.md",
        csv=out / "cells.csv",
        cells=out / "cells.parquet",
        json=out / "report.json",
        requests=out / "requests.parquet" if out.resolve() != run_dir.resolve() else None,
        plots=tuple(out / f"{plot.name}.{kind}" for plot in plots for kind in kinds),
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        for path, (plot, kind) in zip(paths.plots, product(plots, kinds), strict=True):
            _write(path, rendered(plot.figure, kind))
        _write(paths.html, render_html(summary, measurements, kept(run_dir)).encode())
        _write(paths.markdown, render_markdown(summary, plots).encode())
        record = summary.to_json()
        _write(paths.csv, render_csv(record).encode())
        write_table(paths.cells, cell_table(record["cells"]))
        write_json(paths.json, record)
        if paths.requests is not None:
            write_table(paths.requests, request_table(measurements))
    except OSError as error:
        way_out = "Choose another --output."
        if paths.requests is None:
            way_out = f"Nothing measured is lost: make room there, and specbench report {run_dir} writes it again."
        raise SpecbenchError(f"cannot write the report to {out}: {error.strerror}. {way_out}") from error
    return paths


def _write(path: Path, content: bytes) -> None:
    with replacing(path) as partial:
        partial.write_bytes(content)
