"""`specbench workload`: look at prompts and traffic before spending hours on them, and convert prompts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specbench.workloads.prompt import Workload
    from specbench.workloads.stats import WorkloadStats
    from specbench.workloads.traffic_stats import TrafficStats

PROBLEMS_SHOWN = 5
BAR_WIDTH = 40

app = typer.Typer(help="Prompts and traffic: look at them, convert them (docs/workloads.md).", no_args_is_help=True)

_FORMAT = typer.Option(None, "--format", help="What the file is, where its fields do not tell (docs/workloads.md).")
_SKIP = typer.Option(False, "--skip-bad-lines", help="Leave broken lines out, and say how many.")
_JSON = typer.Option(False, "--json", help="Print one JSON object.")


@app.callback()
def _workload() -> None: ...


@app.command()
def show(
    file: Path = typer.Argument(help="A workload file, for example workloads/chat.jsonl."),
    target: str | None = typer.Option(
        None, help="Count tokens as this model does (demo, a directory or a hub id); without it, words are counted."
    ),
    form: str | None = _FORMAT,
    skip_bad_lines: bool = _SKIP,
    as_json: bool = _JSON,
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

    workload = load_workload(file, skip_bad_lines, form)
    if target is None:
        stats = workload_stats(workload, words, "words")
    else:
        directory = resolve_target(target, lambda sentence: typer.echo(sentence, err=True))
        stats = workload_stats(workload, tokens(directory), "tokens")
    if as_json:
        typer.echo(json.dumps(_as_dict(workload, stats, target), indent=2, ensure_ascii=False))
    else:
        _print(workload, stats, target)


@app.command()
def convert(
    source: Path = typer.Argument(metavar="IN", help="A workload file of any format that is read."),
    target: Path = typer.Argument(metavar="OUT", help="Lines (.jsonl), or an array (.json); .gz packs it."),
    to: str = typer.Option(
        "specbench", help="specbench, spec-bench, sharegpt, sglang, openai-batch, vllm, guidellm or aiperf."
    ),
    form: str | None = _FORMAT,
    limit: int | None = typer.Option(None, min=1, help="Write so many prompts at most."),
    category: str | None = typer.Option(None, help="Write those of this category alone."),
    skip_bad_lines: bool = _SKIP,
    as_json: bool = _JSON,
) -> None:
    """The prompts of a file in another format, one in memory at a time; says what that format does not keep.

    Example: specbench workload convert workloads/chat.jsonl mine.jsonl --to openai-batch --category math

    Keys of --json: written, lost {field: prompts}, left_out {reason: prompts}, skipped, first_problems.
    """
    import json

    from specbench.workloads.convert import convert as convert_prompts

    done = convert_prompts(source, target, to, form=form, skip_bad_lines=skip_bad_lines, limit=limit, category=category)
    if as_json:
        told = {
            "written": done.written,
            "lost": dict(done.lost),
            "left_out": dict(done.left_out),
            "skipped": len(done.skipped),
            "first_problems": done.skipped[:PROBLEMS_SHOWN],
        }
        typer.echo(json.dumps(told, indent=2, ensure_ascii=False))
        return
    typer.echo(f"{done.written} prompts are in {target}, as {to} has them.")
    for field, count in done.lost.items():
        lost = "were plain text and became messages of the user" if field == "prompt" else f"lost their {field}"
        typer.echo(f"{count} {lost}.")
    for reason, count in done.left_out.items():
        typer.echo(f"{count} were left out: {reason}.")
    if done.skipped:
        typer.echo(f"{len(done.skipped)} broken lines were left out, the first: {done.skipped[0]}")


@app.command()
def traffic(
    source: str = typer.Argument(
        metavar="FILE|WORDS", help="A trace, a run with --request-rate, or '50 req/s, prompt 800±300, output 250'."
    ),
    form: str | None = _FORMAT,
    time_unit: str | None = typer.Option(
        None, help="Of a trace's times: s, ms, us or ns, where they are not what the format says."
    ),
    duration: str = typer.Option("1h", help="How much to draw of traffic in words; of one with a peak take 24h."),
    seed: int = typer.Option(0, min=0, help="Of that draw."),
    as_json: bool = _JSON,
) -> None:
    """The rate over time, burstiness, lengths and tokens per second of traffic.

    Example: specbench workload traffic "50 req/s, prompt 800±300, output 250±150, peak 3x at 14h" --duration 24h

    Keys of --json: source, format (words of a drawn one), time_unit (null of dates), left_out (rows without tokens),
    delayed (turns whose time is a delay after the one before), requests, span_s, requests_per_s,
    busiest_requests_per_s, gaps_cv (1 is Poisson), prompt_tokens and output_tokens {mean, sd, p50, p95, max},
    prompt_tokens_per_s, output_tokens_per_s, sessions (null where not known), rate [{from_s, to_s, requests_per_s}].
    """
    import json

    import numpy as np

    from specbench.workloads.traces import Trace
    from specbench.workloads.traffic_source import find_traffic
    from specbench.workloads.traffic_stats import traffic_stats

    found = find_traffic(source, form, time_unit)
    if isinstance(found, Trace):
        told: dict[str, Any] = {"format": found.format, "time_unit": found.unit}
        told |= {"left_out": found.left_out, "delayed": found.delayed}
        stats = traffic_stats(found.traffic)
    else:
        told = {"format": "words", "time_unit": "s", "left_out": 0, "delayed": 0}
        stats = traffic_stats(found.draw(np.random.default_rng(seed), _duration(duration)))
    if as_json:
        typer.echo(json.dumps({"source": source, **told, **stats.to_json()}, indent=2, ensure_ascii=False))
    else:
        _print_traffic(source, told, stats)


def _duration(text: str) -> float:
    from specbench.errors import SpecbenchError
    from specbench.quantities import seconds

    try:
        value = seconds(text)
    except ValueError as error:
        raise SpecbenchError(f"--duration: {error}; got {text!r}.") from None
    if not isinstance(value, float) or value <= 0:
        raise SpecbenchError(f"--duration: expected a time above 0; got {text!r}.")
    return value


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
    counted = f"counted with {target}" if target else "words; --target demo counts tokens"
    print_table(
        f"Prompt length, {counted}",
        (stats.unit, "prompts", ""),
        _with_bars((f"{low}–{high - 1}", n) for low, high, n in stats.histogram),
    )
    print_table("Categories", ("category", "prompts"), stats.categories.items())
    if workload.skipped:
        print_table("First problems", ("",), [(problem,) for problem in workload.skipped[:PROBLEMS_SHOWN]])


def _print_traffic(source: str, told: dict[str, Any], stats: TrafficStats) -> None:
    from specbench.cli.table import print_table

    rows = [
        ("requests", f"{stats.requests:,} in {_time(stats.span_s)} (format: {told['format']})"),
        ("rate", f"{stats.requests_per_s:.3g} requests/s, {stats.busiest_requests_per_s:.3g} at the busiest"),
        ("burstiness", f"CV of gaps {stats.gaps_cv:.2f} (1 is Poisson)"),
        *(
            (name, f"{of.mean:.0f}±{of.sd:.0f} tokens, median {of.p50:.0f}, p95 {of.p95:.0f}, max {of.max:.0f}")
            for name, of in (("prompt", stats.prompt_tokens), ("output", stats.output_tokens))
        ),
        ("tokens/s", f"{stats.prompt_tokens_per_s:,.0f} of prompts, {stats.output_tokens_per_s:,.0f} of outputs"),
    ]
    if stats.sessions is not None:
        rows.append(("sessions", f"{stats.sessions:,}, {stats.requests / stats.sessions:.1f} requests each"))
    if told["left_out"]:
        rows.append(("left out", f"{told['left_out']:,} rows without prompt or output tokens"))
    if told["delayed"]:
        rows.append(("delayed", f"{told['delayed']:,} turns stand as soon after the one before as users think"))
    print_table(source, ("", ""), rows)
    print_table(
        "Rate over time",
        ("from", "requests/s", ""),
        _with_bars((_time(begin), round(rate, 3)) for begin, _, rate in stats.rate),
    )


def _with_bars(rows: Iterable[tuple[str, float]]) -> list[tuple[str, float, str]]:
    """Rows of a name and a number, with a bar as long as the number."""
    rows = list(rows)
    widest = max(number for _, number in rows)
    return [(name, number, "█" * round(BAR_WIDTH * number / widest)) for name, number in rows]


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
