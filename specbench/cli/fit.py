"""`specbench fit`: a performance model from a run, and what it predicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.planning.cells import Point
    from specbench.planning.prediction import Calibrated, Estimate


def fit(
    run: Path = typer.Argument(..., metavar="RUN", help="Directory of a closed-loop run of `specbench sweep`."),
    predict: list[str] = typer.Option(
        [],
        metavar="PLACE",
        help="A cell that was not measured, as in batch_size=16,gamma=3; also method, workload, prompt_tokens and "
        "output_tokens. Any number of times.",
    ),
    plot: Path | None = typer.Option(
        None, metavar="FILE", help="Draw predicted against measured, and the residuals: .png, .svg or .pdf."
    ),
    gpu: str | None = typer.Option(
        None,
        help="What the run was measured on, such as H200, where it does not say so itself, or an entry of --hardware.",
    ),
    hardware: Path | None = typer.Option(
        None, metavar="FILE", help="Your own entries, as `specbench gpus --measure` writes them."
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """What a step costs and what it yields, as a model fitted to all cells of a run; predictions between and beyond.

    Each measured cell stands beside what a fit without it predicts, so that the error shown is one of prediction.
    Beyond the measured batch sizes and gammas intervals are a guess.

    Example: specbench fit reports/RUN --predict batch_size=16,gamma=3 --plot fit.png

    Keys of --json: simulated; cells, a list of {workload, method, gamma, batch_size, output_tokens_per_s, predicted,
    error_percent (predicted over measured), spread_percent}; held_out_error_percent; level and interval_basis of the
    intervals, interval_factor; noise_percent; parameters, by name {value, sd} (natural logarithms, acceptance in
    logits); predictions, a list of {workload, method, gamma, batch_size, output_tokens_per_s, speedup} with {value,
    low, high}; sentences; notes.
    """
    import json

    from specbench.analysis.json_values import to_json_value
    from specbench.cli.options import pairs
    from specbench.errors import SpecbenchError
    from specbench.hardware.catalogue import catalogue, find_gpu
    from specbench.planning.asked import asked_points
    from specbench.planning.fit import fit as fit_model
    from specbench.planning.from_run import measured
    from specbench.planning.prediction import calibrated
    from specbench.planning.text import to_json
    from specbench.store.run import RunStore

    if hardware is not None and gpu is None:
        raise SpecbenchError("--hardware is for --gpu: name the entry that the run was measured on.")
    store = RunStore.open(run)
    seen = measured(store, find_gpu(gpu, catalogue(hardware)) if gpu else None)
    form = "NAME=VALUE, as in batch_size=16,gamma=3"
    points = [
        p for text in predict for p in asked_points(pairs(text, "--predict", form), seen.observations, "--predict")
    ]
    found = calibrated(fit_model(seen.model, seen.observations))
    if json_output:
        record = {"simulated": store.is_simulated, **to_json(found, points, seen.notes)}
        typer.echo(json.dumps(to_json_value(record), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(found, points, seen.notes, "SIMULATED: " if store.is_simulated else "")
    if plot is not None:
        from specbench.report.figure_file import save
        from specbench.report.fit import draw_fit

        save(draw_fit(found, run.name), plot)
        if not json_output:
            typer.echo(f"Plot: {plot}")


def _print(found: Calibrated, points: list[Point], notes: tuple[str, ...], mark: str) -> None:
    from specbench.cli.table import print_table
    from specbench.planning.text import accuracy, figures, sentences

    if found.held_out:
        columns = ("cell", "tok/s", "predicted without it", "error")
        rows = [
            (
                h.observation.point.label,
                f"{h.observation.tokens_per_second:.4g}",
                f"{h.predicted:.4g}",
                f"{h.predicted / h.observation.tokens_per_second - 1:+.1%}",
            )
            for h in found.held_out
        ]
        print_table(f"{mark}measured and predicted", columns, rows)
    if points:
        shown = zip(points, *figures(found, points), strict=True)
        asked = [(p.label, _shown(rate, ".4g"), _shown(gain, ".2f") if p.gamma else "1") for p, rate, gain in shown]
        print_table(f"{mark}predicted", ("cell", "tok/s [90 %]", "speedup [90 %]"), asked)
    for line in ("", *sentences(found), accuracy(found), *notes):
        typer.echo(line)


def _shown(e: Estimate, form: str) -> str:
    return f"{e.value:{form}} [{e.low:{form}}, {e.high:{form}}]"
