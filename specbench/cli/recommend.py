"""`specbench recommend`: what to switch on, from a run's measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.recommend.concurrency import Concurrency
    from specbench.recommend.measure import MeasuredSchedule
    from specbench.recommend.recommendation import Recommendation
    from specbench.store.run import RunStore

_TRAFFIC, _SCHEDULE = "Your own traffic", "Measuring the schedule"


def recommend(
    run: Path = typer.Argument(..., metavar="RUN", help="Directory of a closed-loop run of `specbench sweep`."),
    workload: str | None = typer.Option(None, help="One of the run's workloads; by default all, served together."),
    request_rate: str | None = typer.Option(
        None, help="Requests per second that come, comma-separated: latency with and without.", rich_help_panel=_TRAFFIC
    ),
    open_loop: Path | None = typer.Option(
        None,
        metavar="RUN",
        help="A run of `specbench sweep --request-rate`: what was measured at its rates, beside the prediction.",
        rich_help_panel=_TRAFFIC,
    ),
    concurrency_histogram: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="How many requests are there at once, and for what share of the time: CSV `concurrency,share`, or a JSON "
        "object.",
        rich_help_panel=_TRAFFIC,
    ),
    mean_concurrency: float | None = typer.Option(
        None, help="The mean of it alone, taken as Poisson.", rich_help_panel=_TRAFFIC
    ),
    measure_schedule: bool = typer.Option(
        False,
        "--measure-schedule",
        help="Start the engine with the schedule, with the best fixed gamma and without, in turns, on the run's "
        "prompts and batch sizes: does it deliver?",
        rich_help_panel=_SCHEDULE,
    ),
    replicates: int | None = typer.Option(
        None, min=1, help="Launches of each arm; as many as in RUN by default.", rich_help_panel=_SCHEDULE
    ),
    output: Path | None = typer.Option(
        None,
        metavar="DIR",
        help="Where that run goes; one that is there is continued. reports/… by default.",
        rich_help_panel=_SCHEDULE,
    ),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object (docs/recommend.md)."),
    quiet: bool = typer.Option(False, "--quiet", help="No progress."),
) -> None:
    """The best method and gamma by batch size, when to switch off, and the engine's flags to paste.

    Rests on a run's measurements alone. Every figure has its interval; what speaks against a cell is said. Exit codes:
    0 there is a recommendation (leaving speculation off is one), 4 not enough evidence, 5 cells of --measure-schedule
    failed.

    Example: specbench recommend reports/RUN --request-rate 4 --concurrency-histogram concurrency.csv
    """
    import json

    from specbench.cli.options import numbers
    from specbench.errors import SpecbenchError
    from specbench.recommend.recommendation import recommend as recommend_from
    from specbench.recommend.text import schedule_text, text
    from specbench.store.run import RunStore

    if (replicates is not None or output is not None) and not measure_schedule:
        raise SpecbenchError("--replicates and --output are for --measure-schedule: add it, or leave them out.")
    store = RunStore.open(run)
    made = recommend_from(
        store,
        workload=workload,
        concurrency=_concurrency(concurrency_histogram, mean_concurrency),
        rates=_rates(numbers(request_rate, "--request-rate")) if request_rate is not None else (),
        open_loop=RunStore.open(open_loop) if open_loop else None,
    )
    if not json_output:
        typer.echo(text(made))
    measured = None
    if measure_schedule and made.method is None:
        typer.echo("specbench: there is no schedule to measure, since nothing is to be switched on.", err=True)
    elif measure_schedule:
        measured = _measure(store, made, replicates, output, quiet=quiet)
    if json_output:
        record = {**made.to_json(), "measured_schedule": measured and measured.to_json()}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    elif measured is not None:
        typer.echo(f"\n{schedule_text(measured)}")
    raise typer.Exit(5 if measured is not None and measured.failures else 0 if made.is_decided else 4)


def _concurrency(histogram: Path | None, mean: float | None) -> Concurrency | None:
    from specbench.errors import SpecbenchError
    from specbench.paths import expand_home
    from specbench.recommend.concurrency import around_mean, read_histogram

    if histogram is not None and mean is not None:
        raise SpecbenchError("--concurrency-histogram and --mean-concurrency say the same: give one of them.")
    if histogram is not None:
        return read_histogram(expand_home(histogram))
    return None if mean is None else around_mean(mean)


def _rates(rates: list[float]) -> list[float]:
    from specbench.errors import SpecbenchError

    if wrong := [rate for rate in rates if not 0 < rate < float("inf")]:
        raise SpecbenchError(f"--request-rate: expected requests per second above 0; got {wrong[0]:g}.")
    return rates


def _measure(
    store: RunStore, made: Recommendation, replicates: int | None, output: Path | None, *, quiet: bool
) -> MeasuredSchedule:
    import asyncio

    from specbench.cli.interrupt import end_as_with_ctrl_c
    from specbench.cli.progress import make_progress
    from specbench.recommend.measure import MeasuredSchedule, measure, measuring_config
    from specbench.report.write import write_report
    from specbench.store.run import MANIFEST
    from specbench.sweep.prepare import prepare

    async def run() -> None:
        end_as_with_ctrl_c()
        await measure(sweep, progress)

    progress = make_progress(quiet=quiet)
    config = measuring_config(store.manifest["config"], made, replicates)
    there = output is not None and (output / MANIFEST).exists()
    sweep = prepare(config, output, resume=there, note=progress.note)
    path = sweep.store.path
    with sweep.store.locked(), progress:
        try:
            asyncio.run(run())
        except (KeyboardInterrupt, asyncio.CancelledError):
            typer.echo(f"specbench: stopped. Go on with the same command and --output {path}", err=True)
            raise typer.Exit(130) from None
    result, summary, measurements = MeasuredSchedule.of(store, sweep.store, made)
    write_report(summary, measurements, path)
    return result
