"""`specbench report`: what a run says."""

from __future__ import annotations

from pathlib import Path

import typer

_MONEY = "Money, instead of what the run was told"


def report(
    run: Path = typer.Argument(
        ...,
        metavar="RUN",
        help="Directory of a run, as `specbench sweep` made it; or the JSON file that `make gpu-check` wrote.",
    ),
    output: Path | None = typer.Option(None, help="Directory for the report; the run's own by default."),
    gpu_price: float | None = typer.Option(None, help="Price of one GPU-hour.", rich_help_panel=_MONEY),
    gpu_count: int | None = typer.Option(None, help="GPUs that one server uses.", rich_help_panel=_MONEY),
    currency: str | None = typer.Option(None, help="A name to print, such as USD or BRL.", rich_help_panel=_MONEY),
    engineering_cost: float | None = typer.Option(
        None, help="One-off cost of switching speculation on.", rich_help_panel=_MONEY
    ),
    tokens_per_month: float | None = typer.Option(None, help="Output tokens served per month.", rich_help_panel=_MONEY),
    slo: str | None = typer.Option(
        None, help="Latency bounds for goodput, instead of the run's: ttft_p95=500ms,tpot_p95=50ms."
    ),
    allow_simulated: bool = typer.Option(
        False, "--allow-simulated", help="Also of a run in which a contract server stood in for the engine."
    ),
    plots: str = typer.Option("png", help="Formats of the plots, comma-separated: png, svg, pdf. PNG is always there."),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
    quiet: bool = typer.Option(False, "--quiet", help="Write the files and print nothing."),
) -> None:
    """Show a run again: table and verdict here; HTML, Markdown, CSV, Parquet, JSON and plots as files.

    Works on a run that is still going, was interrupted, or failed in part: it reports what is there.
    A new price or SLO needs no new measurement.

    Example: specbench report reports/20300101-120000-reference-chat --gpu-price 3.10
    """
    options = locals()

    import json

    from specbench.analysis.summary import summarize
    from specbench.cli.options import given, words
    from specbench.errors import SpecbenchError
    from specbench.report.figure_file import plot_formats
    from specbench.report.gpu_check import gpu_check_text
    from specbench.report.terminal import print_summary
    from specbench.report.write import write_report
    from specbench.store.run import RunStore
    from specbench.sweep.config import PRICING

    if run.is_file():
        text = gpu_check_text(run)
        typer.echo(run.read_text(encoding="utf-8") if json_output else text)
        return
    formats = plot_formats(words(plots, "--plots"))
    store = RunStore.open(run)
    if store.is_of_contract_server and not allow_simulated:
        raise SpecbenchError(
            f"{run} measured no engine: a contract server, which the tests of specbench use, answered in the place of "
            f"{store.manifest['config']['backend']}. To see what it made up all the same: --allow-simulated."
        )
    measurements = store.measurements()
    summary = summarize(store, measurements, pricing=given(options, PRICING))
    paths = write_report(summary, measurements, run, output, formats)
    if json_output:
        typer.echo(json.dumps(summary.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    elif not quiet:
        print_summary(summary)
        typer.echo(f"Report: {paths.html}")
