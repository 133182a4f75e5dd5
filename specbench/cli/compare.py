"""`specbench compare`: two runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.equivalence.across_backends import CellAgreement, DraftedStep


def compare(
    run_a: Path = typer.Argument(..., metavar="RUN_A", help="Directory of a run, as `specbench sweep` made it."),
    run_b: Path = typer.Argument(..., metavar="RUN_B", help="Directory of a run with another backend."),
    across_backends: bool = typer.Option(
        ..., "--across-backends", help="Do two engines give the same tokens, and accept the same drafts step by step?"
    ),
    json_output: bool = typer.Option(False, "--json", help="Print everything as one JSON object, for machines."),
) -> None:
    """Do two engines speculate alike? Needs two runs of the same target, drafters and prompts, greedy, in float32.

    Acceptance is then a property of target and drafter: token ids and the accepted count of every step must be the
    same. Where they are not, one of the engines is wrong. Exit code 3 where any cell differs, 4 where some could not
    be compared.

    Example: specbench compare reports/on-vllm reports/on-reference --across-backends

    Keys of --json: cells, a list of {cell, verdict (AGREE, DIFFER, NOT_COMPARED), speculative, requests, unanswered,
    same_ids, compared, steps, differences, mean_acceptance_length_per_draft_a, mean_acceptance_length_per_draft_b}.
    """
    import json
    from dataclasses import asdict

    from specbench.cli.table import print_table
    from specbench.equivalence.across_backends import compare_runs
    from specbench.store.run import RunStore

    cells = compare_runs(RunStore.open(run_a), RunStore.open(run_b))
    if json_output:
        typer.echo(json.dumps({"cells": [{**asdict(c), "verdict": c.verdict} for c in cells]}, indent=2))
    else:
        columns = ("cell", "same tokens", "same steps", "drafts", "A: tokens per draft", "B", "verdict")
        print_table(f"{run_a} and {run_b}", columns, map(_row, cells))
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
