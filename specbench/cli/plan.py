"""`specbench plan`: how many GPUs, at what cost, with or without speculation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.planning.sizing.demand import Demand
    from specbench.planning.sizing.known import Known
    from specbench.planning.sizing.plan import Plan
    from specbench.store.run import RunStore

_KNOWN, _TRAFFIC, _HARDWARE, _MONEY = "What is known", "The traffic", "The hardware", "Money"

LARGEST_BATCH = 65_536
"""Beyond what any engine runs at once; tables by batch size would fill the memory."""

_PEAK = 3.0
"""Peak over mean of traffic that is known by its month alone: a day of one country, with its quiet night."""


def plan(
    run: Path | None = typer.Argument(
        None, metavar="[RUN]", help="A closed-loop run of `specbench sweep`; without one, --model and the catalogue."
    ),
    model: str | None = typer.Option(
        None,
        help="A Hugging Face config.json, its directory, or a known shape such as llama-3.3-70b.",
        rich_help_panel=_KNOWN,
    ),
    dtype: str | None = typer.Option(
        None, help="Type of the weights: bf16, fp8, int4, fp32; the run's, or bf16.", rich_help_panel=_KNOWN
    ),
    method: str | None = typer.Option(
        None, help="How tokens are drafted; the run's best, or eagle3.", rich_help_panel=_KNOWN
    ),
    acceptance: str | None = typer.Option(
        None,
        help="Assumed, in place of a measured one: the chance that a drafted token is kept once those before it were, "
        "0.7, or by position, 0.8,0.7,0.65.",
        rich_help_panel=_KNOWN,
    ),
    workload: str | None = typer.Option(
        None, help="Which of the run's workloads the traffic is like.", rich_help_panel=_KNOWN
    ),
    max_batch_size: int | None = typer.Option(
        None,
        min=1,
        max=LARGEST_BATCH,
        help="Requests at once that the engine allows; the largest that was measured, or 256.",
        rich_help_panel=_KNOWN,
    ),
    traffic: str | None = typer.Option(
        None,
        metavar="FILE|TEXT",
        help='A trace, or words: "50 req/s, prompt 800±300, output 250±150, peak 3x at 14h". With --tokens-per-month '
        "the lengths and the shape of the day alone; a run's own lengths by default.",
        rich_help_panel=_TRAFFIC,
    ),
    tokens_per_month: float | None = typer.Option(
        None, help="Output tokens of a month, as in 10e9.", rich_help_panel=_TRAFFIC
    ),
    peak_factor: float | None = typer.Option(
        None,
        min=1,
        max=1000,
        help=f"The busiest time's rate over the mean; as --traffic has it, {_PEAK:g} where only a month is known.",
        rich_help_panel=_TRAFFIC,
    ),
    slo: str | None = typer.Option(
        None,
        help="Latencies to be met, as in ttft_p95=500ms,tpot_p95=50ms; without any, work that can wait.",
        rich_help_panel=_TRAFFIC,
    ),
    headroom: str = typer.Option("20%", help="Share of the capacity that is kept free.", rich_help_panel=_TRAFFIC),
    spares: int = typer.Option(0, min=0, help="Replicas on top, for failures.", rich_help_panel=_TRAFFIC),
    gpu: str | None = typer.Option(
        None, help="A GPU of `specbench gpus`; the run's own by default.", rich_help_panel=_HARDWARE
    ),
    gpu_count: int | None = typer.Option(
        None, min=1, help="GPUs of one replica (tensor parallel); the run's, or 1.", rich_help_panel=_HARDWARE
    ),
    hardware: Path | None = typer.Option(
        None, metavar="FILE", help="Your own GPUs or prices, as for `specbench gpus`.", rich_help_panel=_HARDWARE
    ),
    what_if: str | None = typer.Option(
        None, help="Other GPUs to compare with, comma-separated: B300,L40S.", rich_help_panel=_HARDWARE
    ),
    quantization: str | None = typer.Option(
        None, help="Other types of weights to compare with: fp8,int4.", rich_help_panel=_HARDWARE
    ),
    gpu_price: float | None = typer.Option(
        None,
        help="Of one GPU-hour. By default what the run was priced at, or the catalogue has seen.",
        rich_help_panel=_MONEY,
    ),
    currency: str = typer.Option("USD", help="Of all money.", rich_help_panel=_MONEY),
    engineering_cost: float | None = typer.Option(
        None, help="What switching speculation on costs, once: work, training a drafter.", rich_help_panel=_MONEY
    ),
    horizon_months: float = typer.Option(
        24.0, min=0.1, max=1200, help="Within which that must have paid.", rich_help_panel=_MONEY
    ),
    requests: int = typer.Option(20_000, min=500, help="Simulated requests of each trial."),
    seed: int = typer.Option(0, min=0, help="Of the simulation."),
    plot: Path | None = typer.Option(
        None, metavar="FILE", help="Draw what would change the decision (a tornado): .png, .svg or .pdf."
    ),
    html: Path | None = typer.Option(
        None, metavar="FILE", help="The plan as a page that asks the network for nothing."
    ),
    into_report: bool = typer.Option(
        False, "--into-report", help="Keep the plan with the RUN, and write its report anew with the plan in it."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object (docs/plan.md)."),
    quiet: bool = typer.Option(False, "--quiet", help="No progress."),
) -> None:
    """How many GPUs, at what $/M tokens, with or without speculation, for a traffic under an SLO; when it pays back.

    GPUs are whole, and sized for the peak. Every figure has its interval; what was not measured is said. Exit codes: 0
    enable speculation, 3 leave it off, 4 not enough evidence.

    Example: specbench plan reports/RUN --traffic "50 req/s, prompt 800±300, output 250±150" --slo
    ttft_p95=500ms,tpot_p95=50ms --engineering-cost 40000

    Example: specbench plan --model llama-3.3-70b --dtype fp8 --gpu H200 --acceptance 0.8,0.7,0.65 --tokens-per-month
    10e9 --traffic "prompt 800±300, output 250±150" --slo tpot_p95=50ms --what-if B300 --quantization int4
    """
    import json

    from specbench.analysis.cost import Economics
    from specbench.cli import options
    from specbench.errors import SpecbenchError
    from specbench.hardware.catalogue import catalogue
    from specbench.planning.sizing.asked import Asked, resolve
    from specbench.planning.sizing.plan import Terms
    from specbench.planning.sizing.plan import plan as make_plan
    from specbench.planning.sizing.text import to_json
    from specbench.store.run import RunStore

    if into_report and run is None:
        raise SpecbenchError("--into-report is for a plan from a RUN: give one, or --html FILE for a page of its own.")
    Economics.from_config(
        {
            "gpu_price": gpu_price,
            "gpu_count": gpu_count,
            "engineering_cost": engineering_cost,
            "tokens_per_month": tokens_per_month,
        }
    )
    asked = Asked(
        model=model,
        dtype=dtype,
        method=method,
        workload=workload,
        acceptance=options.numbers(acceptance, "--acceptance") if acceptance is not None else (),
        gpu=gpu,
        gpu_count=gpu_count,
        gpu_price=gpu_price,
        currency=currency,
        what_if=options.words(what_if, "--what-if") if what_if is not None else (),
        quantization=options.words(quantization, "--quantization") if quantization is not None else (),
    )
    terms = Terms(
        slo=options.bounds(slo, "--slo") if slo is not None else {},
        headroom=_headroom(headroom),
        spares=spares,
        max_batch_size=max_batch_size,
        engineering_cost=engineering_cost,
        horizon_months=horizon_months,
        currency=currency,
        requests=requests,
        seed=seed,
    )
    store = RunStore.open(run) if run else None
    known, site, others = resolve(asked, store, catalogue(hardware))
    demand = _demand(traffic, tokens_per_month, peak_factor, store, known)
    made = make_plan(known, site, others, demand, terms, (lambda _: None) if quiet else _say)
    mark = "SIMULATED: " if store is not None and store.is_simulated else ""
    if json_output:
        record = {"simulated": bool(mark), "run": run and str(run), **to_json(made)}
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(made, mark)
    for what, path in _write(made, mark, plot, html, store if into_report else None):
        if not json_output:
            typer.echo(f"{what}: {path}")
    raise typer.Exit(made.sized.decision.exit_code)


def _demand(
    traffic: str | None, volume: float | None, peak: float | None, store: RunStore | None, known: Known
) -> Demand:
    from specbench.errors import SpecbenchError
    from specbench.planning.sizing.demand import Demand
    from specbench.workloads.traces import Trace
    from specbench.workloads.traffic_source import find_traffic

    if traffic is None:
        if volume is None or store is None:
            raise SpecbenchError(
                'how much is to be served? Give --traffic, a trace or words such as "50 req/s, prompt 800±300, output '
                '250±150"; or --tokens-per-month, with the lengths of a RUN or of --traffic.'
            )
        found = Demand.of_run(store, known.arm[0]).of_volume(volume).with_peak(peak or _PEAK)
    elif isinstance(named := find_traffic(traffic, tokens_per_month=volume), Trace):
        found = Demand.of_traffic(named.traffic, traffic)
        found = found.of_volume(volume) if volume else found
    else:
        found = Demand.of_spec(named, traffic)
        found = found.with_peak(_PEAK) if volume and named.peak == 1 else found
    return found.with_peak(peak) if peak else found


def _headroom(text: str) -> float:
    from specbench.errors import SpecbenchError
    from specbench.quantities import share

    try:
        value = share(text)
    except ValueError as error:
        raise SpecbenchError(f"--headroom: {error}; got {text!r}.") from None
    if not isinstance(value, float) or not 0 <= value < 1:
        raise SpecbenchError(f"--headroom: expected less than 100%; got {text!r}.")
    return value


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _print(made: Plan, mark: str) -> None:
    from specbench.cli.table import print_table
    from specbench.planning.sizing import text

    typer.echo(f"{mark}{text.headline(made)}\n")
    for line in (text.schedule_text(made), *text.money_lines(made), ""):
        typer.echo(line)
    for table in text.tables(made):
        print_table(f"{mark}{table.title}", table.columns, table.rows)
    for line in ("", text.next_line(made), "", *text.assumptions(made)):
        typer.echo(line)


def _write(
    made: Plan, mark: str, plot: Path | None, html: Path | None, store: RunStore | None
) -> Iterator[tuple[str, Path]]:
    """What was written, and where. store: the run whose report is to hold the plan"""
    if plot is not None:
        from specbench.report.figure_file import save
        from specbench.report.tornado import draw_tornado

        save(draw_tornado(made), plot)
        yield "Plot", plot
    if html is None and store is None:
        return
    from specbench.report.kept_plan import keep
    from specbench.report.plan_page import plan_section, render_plan
    from specbench.store.atomic import replacing

    section = plan_section(made, mark)
    if html is not None:
        with replacing(html) as partial:
            partial.write_text(render_plan(section), encoding="utf-8")
        yield "Page", html
    if store is not None:
        from specbench.analysis.summary import summarize
        from specbench.report.write import write_report

        keep(section, store.path)
        yield "Report", write_report(summarize(store), store.measurements(), store.path).html
