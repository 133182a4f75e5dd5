"""`specbench compare`: runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.comparison.result import Against, Comparison
    from specbench.equivalence.across_backends import CellAgreement, DraftedStep

_OWN = ("metric", "arm", "gpu_price", "markdown", "plot")
_MOST_CHANGES = 15


def compare(
    context: typer.Context,
    runs: list[Path] = typer.Argument(
        ..., metavar="A B…", help="Runs' directories, or files of `specbench baseline save`. Each is held against A."
    ),
    metric: str | None = typer.Option(
        None,
        help="Comma-separated columns of cells.csv, such as speedup,ttft_ms_p95,cost_per_million_output_tokens,"
        "memory_bytes_peak. Every one more makes each finding harder to reach.",
    ),
    arm: str | None = typer.Option(
        None,
        metavar="ARM,ARM…",
        help="One arm of each run instead of like with like, such as ngram-g4,eagle3-g3. A run may be given twice.",
    ),
    gpu_price: float | None = typer.Option(
        None, help="Price of one GPU-hour in every run; by default that of the first run that has one."
    ),
    markdown: Path | None = typer.Option(
        None, metavar="FILE", help='Write Markdown there, such as "$GITHUB_STEP_SUMMARY".'
    ),
    plot: Path | None = typer.Option(None, metavar="FILE", help="Draw the changes there: .png, .svg or .pdf."),
    across_backends: bool = typer.Option(
        False,
        "--across-backends",
        help="Instead: do two engines give the same tokens, and accept the same drafts step by step?",
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """What changed between runs, and what that did, cell by cell.

    Every figure has its change with an interval. A difference is found where it holds over all figures at once (Holm);
    where none is, the table says how large a one would have been. Runs need the same target, prompts and sampling, or
    they are refused. Versions, flags, drafters, engine and machine may differ, and are named; of two engines or
    machines only ratios are compared (speedup, acceptance). To let a build pass or fail use specbench gate.

    Exit code 0: compared, whatever was found; 4: of some run nothing could be judged, be it refused or of too few
    launches; 1: nothing could be compared.

    Example: specbench compare reports/before reports/after --markdown compared.md --plot compared.svg

    Example: specbench compare reports/on-vllm reports/on-sglang --metric speedup

    Example: specbench compare reports/run reports/run --arm ngram-g4,eagle3-g3

    Keys of --json: docs/columns.md. With --across-backends (two runs of the same target, drafters and prompts, greedy,
    in float32; exit code 3 where any cell differs, 4 where some could not be compared): cells, a list of {cell, verdict
    (AGREE, DIFFER, NOT_COMPARED), speculative, requests, unanswered, same_ids, compared, steps, differences,
    mean_acceptance_length_per_draft_a, mean_acceptance_length_per_draft_b}.
    """
    import json

    from specbench.cli.options import refuse_given, words

    if across_backends:
        refuse_given(context, _OWN, "means nothing with --across-backends")
        _compare_backends(runs, json_output=json_output)
        return

    from specbench.comparison.compare import Wanted
    from specbench.comparison.compare import compare as compared
    from specbench.comparison.sides import load_sides
    from specbench.report.comparison_markdown import render_markdown

    wanted = Wanted(
        metrics=tuple(words(metric, "--metric")) if metric else None,
        arms=tuple(words(arm, "--arm")) if arm else None,
        gpu_price=gpu_price,
    )
    comparison = compared(load_sides(runs), wanted)
    if markdown is not None:
        markdown.write_text(render_markdown(comparison), encoding="utf-8")
    if plot is not None:
        from specbench.report.forest import write_forest

        write_forest(plot, comparison)
    if json_output:
        typer.echo(json.dumps(comparison.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(comparison)
    raise typer.Exit(comparison.exit_code)


def _print(comparison: Comparison) -> None:
    from specbench.comparison import wording

    if comparison.is_simulated:
        typer.echo("SIMULATED: no engine ran.")
    for run in comparison.runs:
        typer.echo(wording.heading(run))
    for against in comparison.against:
        typer.echo(f"\n{wording.summary(against)}")
        _print_against(comparison, against)
    typer.echo()
    for note in wording.notes(comparison):
        typer.echo(note)
    for caveat in comparison.caveats:
        typer.echo(f"Mind: {caveat}")


def _print_against(comparison: Comparison, against: Against) -> None:
    from specbench.cli.table import print_table
    from specbench.comparison import wording

    shown = against.changes[:_MOST_CHANGES]
    if shown:
        rows = [(change.name, change.before, change.after) for change in shown]
        print_table(f"What changed from A to {against.run}", ("", "A", against.run), rows)
    if more := len(against.changes) - len(shown):
        typer.echo(f"{more} more changes are in --json.")
    for metric, table in wording.tables(comparison, against):
        print_table(f"{metric}, {against.run} against A", wording.columns(against.run), table)
    for label, lines in (
        ("Not judged", wording.reasons(against)),
        ("Outputs against plain decoding changed", map(str, against.outputs)),
        ("Not compared", (*against.left_out, *wording.only(against))),
    ):
        for line in lines:
            typer.echo(f"{label}: {line}")


def _compare_backends(runs: Sequence[Path], *, json_output: bool) -> None:
    import json
    from dataclasses import asdict

    from specbench.cli.table import print_table
    from specbench.equivalence.across_backends import compare_runs
    from specbench.errors import SpecbenchError
    from specbench.store.run import RunStore

    if len(runs) != 2:
        raise SpecbenchError(f"--across-backends compares two runs; got {len(runs)}.")
    cells = compare_runs(*map(RunStore.open, runs))
    if json_output:
        typer.echo(json.dumps({"cells": [{**asdict(c), "verdict": c.verdict} for c in cells]}, indent=2))
    else:
        columns = ("cell", "same tokens", "same steps", "drafts", "A: tokens per draft", "B", "verdict")
        print_table(f"{runs[0]} and {runs[1]}", columns, map(_row, cells))
        for cell in cells:
            for d in cell.differences[:1]:
                typer.echo(f"{cell.cell}: {d.prompt_id} differs first at draft {d.step}: {_step(d.a)} | {_step(d.b)}")
    verdicts = {c.verdict for c in cells}
    if verdicts != {"AGREE"}:
        raise typer.Exit(3 if "DIFFER" in verdicts else 4)


def _row(cell: CellAgreement) -> tuple[str, ...]:
    lengths = (cell.mean_acceptance_length_per_draft_a, cell.mean_acceptance_length_per_draft_b)
    shown = ("-" if length is None else f"{length:.3f}" for length in lengths)
    agreeing = cell.compared - len(cell.differences)
    steps = (f"{agreeing} of {cell.compared}", str(cell.steps)) if cell.speculative else ("-", "-")
    return (cell.cell, f"{cell.same_ids} of {cell.requests + cell.unanswered}", *steps, *shown, cell.verdict)


def _step(step: DraftedStep | None) -> str:
    return "no such draft" if step is None else f"{step[1]} of {step[0]} accepted"
