"""`specbench report`: what a run says."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import typer


def report(
    run: Path = typer.Argument(..., metavar="RUN", help="Directory of a run, as `specbench sweep` made it."),
    output: Optional[Path] = typer.Option(  # noqa: UP045
        None, help="Directory for the report; the run's own by default."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
    quiet: bool = typer.Option(False, "--quiet", help="Write the files and print nothing."),
) -> None:
    """Show a run again: table and verdict here; HTML, Markdown, CSV, Parquet, JSON and plots as files.

    Works on a run that is still going, was interrupted, or failed in part: it reports what is there.

    Example: specbench report reports/20300101-120000-reference-chat
    """
    import json

    from specbench.analysis.summary import summarize
    from specbench.report.terminal import print_summary
    from specbench.report.write import write_report
    from specbench.store.run import RunStore

    summary = summarize(RunStore.open(run))
    paths = write_report(run, output)
    if json_output:
        typer.echo(json.dumps(summary.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    elif not quiet:
        print_summary(summary)
        typer.echo(f"Report: {paths.html}")
