"""`specbench baseline`: what a run is to later ones, in a file small enough to commit."""

from __future__ import annotations

from pathlib import Path

import typer

app = typer.Typer(help="Baselines for the gate: figures of a run, in a file to commit.", no_args_is_help=True)


@app.callback()
def _baseline() -> None: ...


@app.command()
def save(
    run: Path = typer.Argument(..., metavar="RUN", help="Directory of a run of five replicates or more."),
    output: Path = typer.Option(Path("baseline.json"), help="The file to write."),
) -> None:
    """Keep a run's figures, by cell and replicate, with what they were measured on and made with.

    Example: specbench baseline save reports/20300101-120000-vllm-chat --output ci/baseline.json
    """
    from specbench.analysis.decision import LEAST_PAIRS
    from specbench.comparison.from_run import snapshot
    from specbench.store.run import RunStore

    kept = snapshot(RunStore.open(run))
    kept.write(output)
    typer.echo(f"{output}: {len(kept.cells)} cells, {len(kept.replicates)} replicates of {kept.run}.")
    if len(kept.replicates) < LEAST_PAIRS:
        typer.echo(f"A gate needs {LEAST_PAIRS} replicates: sweep with --replicates {LEAST_PAIRS} or more.")
    if kept.missing:
        typer.echo(f"{kept.missing} planned measurements are missing: specbench sweep --resume --output {run}.")


@app.command()
def show(
    file: Path = typer.Argument(..., metavar="FILE", help="A baseline file, or a run's directory."),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """What a baseline holds: cells with their means, what it was measured on, and what with.

    Example: specbench baseline show ci/baseline.json

    Keys of --json: those of the file: specbench_baseline (version of the format), run, created_at, simulated,
    fingerprint, made_with, gpu_price, gpu_count, currency, missing, replicates, cells.
    """
    import math

    from specbench.cli.table import print_table
    from specbench.comparison.from_run import load_snapshot
    from specbench.comparison.metrics import INTERLEAVED, STORED
    from specbench.comparison.wording import number

    kept = load_snapshot(file)
    if json_output:
        typer.echo(kept.model_dump_json(indent=2))
        return
    simulated = ", SIMULATED" if kept.simulated else ""
    names = [name for name in dict.fromkeys((*STORED, *INTERLEAVED)) if any(name in c.figures for c in kept.cells)]

    def mean(values: tuple[float | None, ...]) -> str:
        logs = [math.log(value) for value in values if value]
        return number(math.exp(math.fsum(logs) / len(logs)) if logs else None)

    rows = [(str(c.key), *(mean(c.figures.get(name, ())) for name in names), c.equivalence) for c in kept.cells]
    print_table(f"{kept.run}, {len(kept.replicates)} replicates{simulated}", ("cell", *names, "outputs"), rows)
    print_table("Measured on", ("", ""), kept.fingerprint.items())
    print_table("Made with", ("", ""), kept.made_with.items())
