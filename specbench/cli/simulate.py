"""`specbench simulate`: a fleet under traffic, request by request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from specbench.cli.plan import LARGEST_BATCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specbench.planning.simulator import Arrivals, Failures, Outcome
    from specbench.planning.sizing.known import Known
    from specbench.store.run import RunStore

_LEAST_UP = 60.0
_WITHOUT_RUN = ("model", "dtype", "gpu", "gpu_count", "hardware")
_KNOWN, _TRAFFIC, _FLEET, _ENGINE = "What is known", "The traffic", "The fleet", "The engine"


def simulate(
    context: typer.Context,
    run: Path | None = typer.Argument(
        None, metavar="[RUN]", help="A closed-loop run of `specbench sweep`; without one, --model and the catalogue."
    ),
    model: str | None = typer.Option(
        None,
        help="A Hugging Face config.json, its directory, or a known shape such as llama-3.3-70b.",
        rich_help_panel=_KNOWN,
    ),
    dtype: str = typer.Option("bf16", help="Type of the weights, with --model.", rich_help_panel=_KNOWN),
    gpu: str | None = typer.Option(None, help="A GPU of `specbench gpus`, with --model.", rich_help_panel=_KNOWN),
    gpu_count: int = typer.Option(1, min=1, help="GPUs of one replica, with --model.", rich_help_panel=_KNOWN),
    hardware: Path | None = typer.Option(
        None, metavar="FILE", help="Your own GPUs, as for `specbench gpus`.", rich_help_panel=_KNOWN
    ),
    method: str | None = typer.Option(
        None, help="How tokens are drafted; the run's best, or eagle3.", rich_help_panel=_KNOWN
    ),
    workload: str | None = typer.Option(
        None, help="Which of the run's workloads the traffic is like.", rich_help_panel=_KNOWN
    ),
    acceptance: str | None = typer.Option(
        None,
        help="Assumed: the chance that a drafted token is kept once those before it were, 0.7, or 0.8,0.7,0.65.",
        rich_help_panel=_KNOWN,
    ),
    spread: float | None = typer.Option(
        None,
        min=0,
        max=10,
        help="How much acceptance differs from request to request: sd in logits. What the run shows, or 0.5.",
        rich_help_panel=_KNOWN,
    ),
    traffic: str = typer.Option(
        ...,
        metavar="FILE|TEXT",
        help='A trace, or words: "50 req/s, prompt 800±300, output 250±150, cv 2, peak 3x at 14h".',
        rich_help_panel=_TRAFFIC,
    ),
    duration: str | None = typer.Option(
        None, help="Of the traffic: 90s, 30m, 24h. An hour, or all of a trace.", rich_help_panel=_TRAFFIC
    ),
    slo: str | None = typer.Option(
        None, help="Latencies to be met, as in ttft_p95=500ms,tpot_p95=50ms.", rich_help_panel=_TRAFFIC
    ),
    seed: int = typer.Option(0, min=0, help="Of all that is drawn.", rich_help_panel=_TRAFFIC),
    replicas: int = typer.Option(1, min=1, max=100_000, help="Servers, all alike.", rich_help_panel=_FLEET),
    router: str = typer.Option(
        "shortest-queue",
        help="round-robin, random, shortest-queue, or prefix-affinity (a session stays).",
        rich_help_panel=_FLEET,
    ),
    sample: int | None = typer.Option(
        None,
        min=1,
        help="Simulate so many replicas for all: exact for Poisson arrivals and the random router, refused otherwise.",
        rich_help_panel=_FLEET,
    ),
    failures: str | None = typer.Option(
        None,
        metavar="TIME,TIME",
        help="Mean time between failures of a replica and to its repair, as in 24h,10m.",
        rich_help_panel=_FLEET,
    ),
    policy: str = typer.Option(
        "none",
        help="What sets gamma; several, comma-separated, are compared: none, fixed:3, schedule:1=4+9=0, threshold, "
        "goodput, tiers, utility, oracle.",
        rich_help_panel=_ENGINE,
    ),
    max_batch_size: int | None = typer.Option(
        None,
        min=1,
        max=LARGEST_BATCH,
        help="Requests at once; the run's largest, or 256.",
        rich_help_panel=_ENGINE,
    ),
    token_budget: int = typer.Option(8192, min=1, max=10_000_000, help="Tokens of one pass.", rich_help_panel=_ENGINE),
    kv_tokens: int | None = typer.Option(
        None, min=1, help="Tokens that the cache holds; what the run says, or by memory.", rich_help_panel=_ENGINE
    ),
    block_tokens: int = typer.Option(16, min=1, help="Tokens of a block of the cache.", rich_help_panel=_ENGINE),
    prefix_caching: bool = typer.Option(
        False, "--prefix-caching", help="The prefix of a session's last turn is found again.", rich_help_panel=_ENGINE
    ),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw the course of time: .png, .svg or .pdf."),
    prometheus: Path | None = typer.Option(
        None, metavar="FILE", help="Write the figures as Prometheus reads them; of one policy."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print one JSON object (docs/simulate.md)."),
) -> None:
    """Latency, throughput and goodput of a fleet under traffic, with and without speculation, step by step.

    Every request is simulated, whatever their number: batching, prefill, cache, acceptance, routing. Intervals are 95 %
    by batch means. What speaks of a model that was not measured rests on the catalogue and says so.

    Example: specbench simulate reports/RUN --traffic "2 req/s, prompt 200±100, output 100±50" --policy
    none,fixed:3,oracle

    Example: specbench simulate --model llama-3.3-70b --dtype fp8 --gpu H200 --gpu-count 2 --acceptance 0.8,0.7,0.65
    --traffic "300 req/s, prompt 800±300, output 250±150, peak 3x at 14h" --duration 24h --replicas 100 --policy goodput
    --plot day.png
    """
    import json

    from specbench.analysis.goodput import Slo
    from specbench.cli import options
    from specbench.errors import SpecbenchError
    from specbench.planning.simulator import Fleet
    from specbench.planning.simulator import simulate as run_fleet
    from specbench.planning.simulator.from_known import replica_of
    from specbench.planning.simulator.text import regret
    from specbench.store.run import RunStore

    bounds = options.bounds(slo, "--slo") if slo else {}
    policies = options.words(policy, "--policy")
    if plot is not None:
        from specbench.report.figure_file import format_of

        format_of(plot)  # which it is better to know before than after the day
    if prometheus is not None and len(policies) > 1:
        raise SpecbenchError("--prometheus holds the figures of one policy: give one with --policy.")
    if run is not None:
        options.refuse_given(context, _WITHOUT_RUN, "is for a fleet without a RUN")
    store = RunStore.open(run) if run is not None else None
    known = _known(store, model, dtype, gpu, gpu_count, hardware, method, workload)
    if acceptance is not None:
        known = known.accepting(options.numbers(acceptance, "--acceptance"))
    arrivals = _arrivals(traffic, duration)
    limits = Slo.from_config({"slo": bounds}).limits
    outcomes = []
    differ = _spread(store, known) if spread is None else spread
    for name in policies:
        replica = replica_of(known, name, differ, max_batch_size, token_budget, kv_tokens, block_tokens, prefix_caching)
        fleet = Fleet(replica, replicas, router, _failures(failures))
        outcomes.append(run_fleet(fleet, arrivals, seed=seed, slo=limits, sample=sample))
    notes = [*_scenario(store), *known.notes, *_notes(outcomes)]
    if json_output:
        record = {
            "run": run and str(run),
            "traffic": traffic,
            "slo": bounds,
            "policies": [
                {
                    **o.to_dict(),
                    "slo_met": o.meets(bounds) if bounds else None,
                    "regret": regret(o, outcomes),
                }
                for o in outcomes
            ],
            "notes": notes,
        }
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(outcomes, bounds, notes)
    _write(outcomes, bounds, traffic, plot, prometheus, quiet=json_output)


def _known(
    store: RunStore | None,
    model: str | None,
    dtype: str,
    gpu: str | None,
    gpu_count: int,
    hardware: Path | None,
    method: str | None,
    workload: str | None,
) -> Known:
    from specbench.errors import SpecbenchError
    from specbench.hardware.catalogue import catalogue, find_gpu
    from specbench.planning.machine import Machine
    from specbench.planning.sizing.known import from_catalogue, from_run
    from specbench.planning.sizing.target import shape_of, with_weights

    if store is not None:
        return from_run(store, workload, method)
    if model is None or gpu is None:
        raise SpecbenchError("give a RUN to simulate from, or both --model and --gpu to go by the catalogue.")
    named = find_gpu(gpu, catalogue(hardware))
    shape, precision = with_weights(shape_of(model), dtype)
    return from_catalogue(shape, named, Machine.of(named, gpu_count, precision), method or "eagle3")


def _spread(store: RunStore | None, known: Known) -> float:
    from specbench.planning.simulator.spread import USUAL, spread_of_run

    return USUAL if store is None else spread_of_run(store, *known.arm)


def _scenario(store: RunStore | None) -> list[str]:
    told = "SIMULATED: the run itself is of a scenario, and no engine ran."
    return [told] if store is not None and store.is_simulated else []


def _arrivals(traffic: str, duration: str | None) -> Arrivals:
    from specbench.errors import SpecbenchError
    from specbench.planning.simulator import arrivals_of
    from specbench.quantities import seconds
    from specbench.workloads.traces import Trace
    from specbench.workloads.traffic_source import find_traffic

    try:
        given = seconds(duration) if duration is not None else None
        if given is not None and not (isinstance(given, float) and given > 0):
            raise ValueError("expected a time above 0 such as 30m or 24h")
    except ValueError as error:
        raise SpecbenchError(f"--duration: {error}; got {duration!r}.") from None
    found = find_traffic(traffic)
    return arrivals_of(found.traffic if isinstance(found, Trace) else found, given)


def _failures(written: str | None) -> Failures | None:
    from specbench.cli import options
    from specbench.errors import SpecbenchError
    from specbench.planning.simulator import Failures
    from specbench.quantities import seconds

    if written is None:
        return None
    try:
        times = [seconds(part) for part in options.words(written, "--failures")]
    except ValueError as error:
        raise SpecbenchError(f"--failures: {error}; got {written!r}.") from None
    if len(times) != 2 or not all(isinstance(time, float) for time in times):
        raise SpecbenchError(f"--failures: expected two times, as in 24h,10m; got {written!r}.")
    between, repair = (float(str(time)) for time in times)
    # A replica that is never up for as long as a request takes ends none, and the simulation would go on for ever.
    if between < _LEAST_UP:
        raise SpecbenchError(f"--failures: expected a minute or more between them; got {written!r}.")
    return Failures(between, repair)


def _notes(outcomes: Sequence[Outcome]) -> list[str]:
    from specbench.planning.simulator.compiled import FAST

    first = outcomes[0]
    notes = []
    if first.requests == 0:
        notes.append("Nothing came: no request arrives in so short a time at this rate. Give a longer --duration.")
    for outcome in outcomes:
        if outcome.falls_behind:
            notes.append(
                f"With {outcome.fleet.replica.policy} the fleet falls behind: {outcome.arrivals_per_s:.3g} requests/s "
                f"come and {outcome.requests_per_s:.3g} end, so its queue and its latencies grow for as long as this "
                "traffic lasts. More --replicas."
            )
    if first.sampled is not None:
        notes.append(
            f"{first.sampled} of {first.fleet.replicas} replicas were simulated and stand for all: exact, since a "
            "random split of a Poisson process gives independent Poisson processes."
        )
    if first.refused:
        notes.append(
            f"{first.refused} of {first.requests} requests are longer than a replica's cache, and were refused."
        )
    if not FAST:
        notes.append("numba is not installed: the same simulation takes some hundred times longer without it.")
    return notes


def _print(outcomes: Sequence[Outcome], bounds: Mapping[str, float], notes: Sequence[str]) -> None:
    from specbench.cli.table import print_table
    from specbench.planning.simulator.text import columns, heading, rows

    print_table(heading(outcomes[0]), columns(outcomes), rows(outcomes, bounds))
    for line in ("", *notes):
        typer.echo(line)


def _write(
    outcomes: Sequence[Outcome],
    bounds: Mapping[str, float],
    traffic: str,
    plot: Path | None,
    prometheus: Path | None,
    *,
    quiet: bool,
) -> None:
    from specbench.planning.simulator.prometheus import prometheus_text
    from specbench.report.figure_file import save
    from specbench.report.simulation import draw_simulation
    from specbench.store.atomic import replacing

    if plot is not None:
        save(draw_simulation(outcomes, bounds, f"simulated: {traffic}"), plot)
    if prometheus is not None:
        with replacing(prometheus) as partial:
            partial.write_text(prometheus_text(outcomes[0]), encoding="utf-8")
    for what, path in (("Plot", plot), ("Prometheus", prometheus)):
        if path is not None and not quiet:
            typer.echo(f"{what}: {path}")
