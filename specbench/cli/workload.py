"""`specbench workload`: look at a file of prompts before spending hours on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.workloads.prompt import Workload
    from specbench.workloads.stats import WorkloadStats

PROBLEMS_SHOWN = 5
BAR_WIDTH = 40

app = typer.Typer(help="Look at files of prompts.", no_args_is_help=True)


@app.callback()
def _workload() -> None: ...


@app.command()
def show(
    file: Path = typer.Argument(help="A workload file, for example workloads/chat.jsonl."),
    target: str | None = typer.Option(
        None, help="Count tokens as this model does (demo, a directory or a hub id); without it, words are counted."
    ),
    skip_bad_lines: bool = typer.Option(False, "--skip-bad-lines", help="Leave broken lines out, and say how many."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Counts, lengths, categories, repetition and first problems of a workload file.

    Example: specbench workload show workloads/chat.jsonl --target demo

    Keys of --json: name, path, sha256, prompts, multi_turn, categories {name: prompts}, duplicates, target,
    unit (tokens or words), length {min, median, mean, max}, histogram [{from, below, prompts}],
    repetition (mean share of 4-grams that stood earlier in the prompt), skipped, first_problems.
    """
    import json

    from specbench.target import resolve_target
    from specbench.workloads import load_workload
    from specbench.workloads.stats import tokens, words, workload_stats

    workload = load_workload(file, skip_bad_lines)
    if target is None:
        stats = workload_stats(workload, words, "words")
    else:
        directory = resolve_target(target, lambda sentence: typer.echo(sentence, err=True))
        stats = workload_stats(workload, tokens(directory), "tokens")
    if as_json:
        typer.echo(json.dumps(_as_dict(workload, stats, target), indent=2, ensure_ascii=False))
    else:
        _print(workload, stats, target)


def _as_dict(workload: Workload, stats: WorkloadStats, target: str | None) -> dict[str, object]:
    return {
        "name": workload.name,
        "path": str(workload.path),
        "sha256": workload.sha256,
        "prompts": stats.prompts,
        "multi_turn": stats.multi_turn,
        "categories": stats.categories,
        "duplicates": stats.duplicates,
        "target": target,
        "unit": stats.unit,
        "length": stats.summary,
        "histogram": [{"from": low, "below": high, "prompts": n} for low, high, n in stats.histogram],
        "repetition": stats.repetition,
        "skipped": len(workload.skipped),
        "first_problems": list(workload.skipped[:PROBLEMS_SHOWN]),
    }


def _print(workload: Workload, stats: WorkloadStats, target: str | None) -> None:
    from specbench.cli.table import print_table

    length = stats.summary
    rows = [
        ("prompts", f"{stats.prompts}, {stats.multi_turn} of them multi-turn"),
        ("length", f"{length['min']} to {length['max']} {stats.unit}, median {length['median']:g}"),
        ("repetition", f"{stats.repetition:.1%} of 4-grams stood earlier in their prompt"),
        ("duplicates", f"{stats.duplicates} prompts repeat an earlier one"),
        ("SHA-256", workload.sha256),
    ]
    if workload.skipped:
        rows.append(("skipped", f"{len(workload.skipped)} broken lines"))
    print_table(f"{workload.name} ({workload.path})", ("", ""), rows)
    widest = max(n for *_, n in stats.histogram)
    counted = f"counted with {target}" if target else "words; --target demo counts tokens"
    print_table(
        f"Prompt length, {counted}",
        (stats.unit, "prompts", ""),
        [(f"{low}–{high - 1}", n, "█" * round(BAR_WIDTH * n / widest)) for low, high, n in stats.histogram],
    )
    print_table("Categories", ("category", "prompts"), stats.categories.items())
    if workload.skipped:
        print_table("First problems", ("",), [(problem,) for problem in workload.skipped[:PROBLEMS_SHOWN]])
