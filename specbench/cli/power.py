"""`specbench power`: how much to measure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.analysis.planner import GateNeed, SweepNeed


def power(
    context: typer.Context,
    noise: str | None = typer.Option(
        None,
        help="Standard deviation of a pair's log ratio, such as 2%: what speedup_sd_percent of a run is. Of one "
        "measurement it is 1/√2 of that.",
    ),
    effect: str | None = typer.Option(
        None, help="Change to see, comma-separated. By default 1%,2%,3%,5%; with --gate 5%,10%."
    ),
    power: str = typer.Option("90%", help="Probability of seeing it."),
    gate: bool = typer.Option(False, "--gate", help="Plan a gate's comparison instead of a sweep's."),
    margin: str = typer.Option("3%", help="With --gate: the loss that is none."),
    run: Path | None = typer.Option(
        None, metavar="RUN", help="Take the noise from a run with two replicates or more, and say how long pairs take."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """How many pairs of launches does it take to see a change of that size?

    A pair is one launch with and one without what is compared, in turns: a replicate of `specbench sweep`.

    Example: specbench power --noise 2% --effect 3%

    Example: specbench power --gate --run reports/20300101-120000-reference-chat --effect 5% --power 95%

    Keys of --json: simulated (whether the run's noise is a scenario's), noise, power, level, seconds_per_replicate
    (null without a run), and three lists: measured (of a run's cells: cell, noise, replicates, acceptance_prompts),
    sweep (effect, pairs, pairs_until_ci) and gate (effect, margin, pairs, looks, pairs_equivalent, false_alarm_rate).
    Shares are of 1; a null number of pairs is more than anyone measures.
    """
    import json
    from dataclasses import asdict

    from specbench.analysis.planner import gate_need, measured_noise, pooled, seconds_per_replicate, sweep_need
    from specbench.analysis.statistics import LEVEL
    from specbench.cli.options import percentage, refuse_given, words
    from specbench.cli.table import print_table
    from specbench.errors import SpecbenchError
    from specbench.store.run import RunStore

    if (noise is None) == (run is None):
        raise SpecbenchError("say how noisy pairs are: --noise 2%, or --run RUN to take it from a run.")
    if not gate:
        refuse_given(context, ("margin",), "is a gate's: add --gate")
    store = RunStore.open(run) if run else None
    measurements = store.measurements() if store else []
    simulated = store is not None and store.is_simulated
    measured = measured_noise(measurements)
    if run and not measured:
        raise SpecbenchError(f"{run} has no cell with a speedup in two replicates. Use one of --replicates 3 or more.")
    spread = percentage(noise, "--noise") if noise else pooled(measured)
    wanted, bound = percentage(power, "--power"), percentage(margin, "--margin")
    effects = [percentage(e, "--effect") for e in words(effect or ("5%,10%" if gate else "1%,2%,3%,5%"), "--effect")]
    if gate and min(effects) <= bound:
        raise SpecbenchError(f"--effect must be more than --margin {margin}: what is within it is no regression.")
    sweeps = [] if gate else [sweep_need(e, spread, wanted) for e in effects]
    gates = [gate_need(e, bound, spread, wanted) for e in effects] if gate else []
    seconds = seconds_per_replicate(measurements)
    if json_output:
        record = {
            "simulated": simulated,
            **{"noise": spread, "power": wanted, "level": LEVEL, "seconds_per_replicate": seconds},
            "measured": list(map(asdict, measured)),
            "sweep": list(map(asdict, sweeps)),
            "gate": list(map(asdict, gates)),
        }
        typer.echo(json.dumps(record, indent=2))
        return
    mark = "SIMULATED: " if simulated else ""
    if measured:
        rows = [(m.cell, f"{m.noise:.1%}", m.replicates, _count(m.acceptance_prompts)) for m in measured]
        print_table(f"{mark}Noise in {run}", ("cell", "s_d", "replicates", "prompts for ±1% (s.e.) of AL"), rows)
    if gate:
        title = f"{mark}Pairs for a gate at {margin}: noise {spread:.1%}, power {wanted:.0%}"
        columns = ("regression", "pairs, one look", "or looking at", "pairs to call none none", "false alarms")
        print_table(title, columns, map(_gate_row, gates))
    else:
        title = f"{mark}Replicates for a sweep: noise {spread:.1%}, power {wanted:.0%}"
        print_table(title, ("change", "replicates to tell it from none", "--until-ci takes about"), map(_row, sweeps))
    if seconds is not None:
        typer.echo(
            f"{mark}A replicate of all arms of {run} takes about {seconds:.0f} s: its measurements, and the median "
            "wait for a server or a warm-up before each, so that pauses of the run do not count."
        )


def _row(need: SweepNeed) -> tuple[str, ...]:
    return f"{need.effect:.1%}", _count(need.pairs), _count(need.pairs_until_ci)


def _gate_row(need: GateNeed) -> tuple[str, ...]:
    looks = ", ".join(map(str, need.looks)) if need.looks else "-"
    alarms = "-" if need.false_alarm_rate is None else f"{need.false_alarm_rate:.1g}"
    return f"{need.effect:.1%}", _count(need.pairs), looks, _count(need.pairs_equivalent), alarms


def _count(pairs: int | None) -> str:
    return "-" if pairs is None else str(pairs)
