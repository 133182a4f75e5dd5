"""`specbench gate`: may this change pass?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from specbench.gate.interleave import Session
    from specbench.gate.result import GateResult
    from specbench.gate.rules import Rules
    from specbench.sweep.progress import Progress

_SIDES, _RULES, _FILES = "What is compared", "What passes", "Output"


def gate(
    baseline: Path | None = typer.Option(
        None,
        metavar="RUN|FILE",
        help="How it was: a run, or a file of `specbench baseline save`.",
        rich_help_panel=_SIDES,
    ),
    candidate: Path | None = typer.Option(
        None, metavar="RUN|FILE", help="How it is now: a run.", rich_help_panel=_SIDES
    ),
    interleave: tuple[Path, Path] | None = typer.Option(
        None,
        metavar="CONFIG_A CONFIG_B",
        help="Measure two configurations of `specbench sweep` in turns, here and now; B is the candidate.",
        rich_help_panel=_SIDES,
    ),
    max_replicates: int = typer.Option(
        20, help="With --interleave: pairs after which it stops, clear or not.", rich_help_panel=_SIDES
    ),
    output: Path | None = typer.Option(
        None,
        help="With --interleave: directory of the two runs; a new one under reports/ by default.",
        rich_help_panel=_SIDES,
    ),
    metric: str | None = typer.Option(
        None,
        help="Comma-separated: speedup, mean_acceptance_length, output_tokens_per_s, ttft_ms_p95, "
        "cost_per_million_output_tokens, and other columns of cells.csv. By default what a slow day does not move.",
        rich_help_panel=_RULES,
    ),
    max_regression: str = typer.Option("3%", help="The loss that is none.", rich_help_panel=_RULES),
    require_equivalence: bool = typer.Option(
        False,
        "--require-equivalence",
        help="Fail where the candidate's outputs differ from plain decoding, near ties aside.",
        rich_help_panel=_RULES,
    ),
    min_speedup: float | None = typer.Option(
        None, help="The candidate must reach this, such as 1.2.", rich_help_panel=_RULES
    ),
    at: str | None = typer.Option(
        None, help="Where --min-speedup holds, as in batch_size=1,gamma=3; everywhere else.", rich_help_panel=_RULES
    ),
    junit: Path | None = typer.Option(None, metavar="FILE", help="Write JUnit XML there.", rich_help_panel=_FILES),
    markdown: Path | None = typer.Option(
        None, metavar="FILE", help='Write Markdown there, such as "$GITHUB_STEP_SUMMARY".', rich_help_panel=_FILES
    ),
    json_output: bool = typer.Option(
        False, "--json", help="Print everything as one JSON object, for machines.", rich_help_panel=_FILES
    ),
    quiet: bool = typer.Option(False, "--quiet", help="No progress.", rich_help_panel=_FILES),
) -> None:
    """Did a change make speculation slower, or its outputs wrong? For CI.

    A cell fails where the whole interval of its change lies beyond the loss that is none, over all cells and metrics
    at once (Holm). It passes where so large a loss is ruled out. Otherwise it is inconclusive, and the text says how
    many replicates would decide. Two runs need the same target, prompts, hardware and engine options, and five
    replicates each. Exit code 0: passes; 3: fails; 4: inconclusive; 1: the two cannot be compared.

    Example: specbench gate --baseline ci/baseline.json --candidate reports/new --junit gate.xml

    Example: specbench gate --interleave vllm-old.yaml vllm-new.yaml --max-regression 2%

    Example: specbench gate --candidate reports/new --min-speedup 1.2 --at batch_size=1,gamma=3

    Keys of --json: verdict (PASS, FAIL, INCONCLUSIVE), exit_code, replicates_needed, baseline, candidate, simulated,
    margin, level, paired, not_compared, changes, caveats, and findings, a list of {cell, about, outcome (failed,
    regression, inconclusive, no evidence, not worse, equivalent, improvement), text, before, after, change, low, high,
    p_regression, replicates, replicates_needed}. Shares and ratios are of 1.
    """
    import json

    from specbench.cli.options import pairs, percentage, words
    from specbench.comparison.from_run import load_snapshot
    from specbench.errors import SpecbenchError
    from specbench.gate.judge import judge
    from specbench.gate.junit import render_junit
    from specbench.gate.markdown import render_markdown
    from specbench.gate.rules import Floor, Rules

    _check_sides(baseline, candidate, interleave, output)
    if at is not None and min_speedup is None:
        raise SpecbenchError("--at says where a floor holds: add --min-speedup, such as 1.2.")
    places = pairs(at, "--at", "NAME=VALUE, as in batch_size=1") if at else {}
    rules = Rules(
        metrics=tuple(words(metric, "--metric")) if metric else None,
        margin=percentage(max_regression, "--max-regression"),
        floor=None if min_speedup is None else Floor(min_speedup, places),
        require_equivalence=require_equivalence,
        paired=interleave is not None,
    )
    if interleave is not None:
        result = _measure(interleave, output, rules, max_replicates, quiet=quiet)
    else:
        assert candidate is not None
        if baseline is None and rules.floor is None and not require_equivalence:
            raise SpecbenchError("a candidate alone needs --min-speedup or --require-equivalence; or add --baseline.")
        result = judge(load_snapshot(baseline) if baseline else None, load_snapshot(candidate), rules)
    for path, text in ((junit, render_junit), (markdown, render_markdown)):
        if path is not None:
            path.write_text(text(result), encoding="utf-8")
    if json_output:
        typer.echo(json.dumps(result.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(result)
    raise typer.Exit(result.exit_code)


def _check_sides(
    baseline: Path | None, candidate: Path | None, interleave: tuple[Path, Path] | None, output: Path | None
) -> None:
    from specbench.errors import SpecbenchError

    if interleave is not None and (baseline or candidate):
        raise SpecbenchError("--interleave measures both sides itself: leave --baseline and --candidate out.")
    if interleave is None and candidate is None:
        raise SpecbenchError("say what is gated: --candidate RUN, or --interleave CONFIG_A CONFIG_B.")
    if interleave is None and output is not None:
        raise SpecbenchError(
            "--output is for the runs of --interleave; a gate of stored runs writes --junit, --markdown."
        )


def _measure(
    configs: tuple[Path, Path], output: Path | None, rules: Rules, max_replicates: int, *, quiet: bool
) -> GateResult:
    import asyncio

    from specbench.cli.progress import make_progress
    from specbench.gate.interleave import prepare_session

    progress = make_progress(quiet=quiet)
    session = prepare_session(configs, output, max_replicates, progress.note)
    with session.locked(), progress:
        try:
            return asyncio.run(_run(session, rules, progress))
        except (KeyboardInterrupt, asyncio.CancelledError):
            typer.echo(f"specbench: stopped. What was measured is in {session.path}.", err=True)
            raise typer.Exit(130) from None


async def _run(session: Session, rules: Rules, progress: Progress) -> GateResult:
    from specbench.cli.interrupt import end_as_with_ctrl_c
    from specbench.gate.interleave import run_interleaved

    end_as_with_ctrl_c()
    return await run_interleaved(session, rules, progress)


def _print(result: GateResult) -> None:
    from specbench.cli.table import print_table
    from specbench.gate.markdown import row, summary
    from specbench.gate.result import FAILING, UNDECIDED

    typer.echo(f"{'SIMULATED: ' if result.simulated else ''}{result.verdict}. {summary(result)}")
    title = f"{result.candidate} against {result.baseline}" if result.baseline else result.candidate
    print_table(title, ("cell", "metric", "before", "after", "change", "outcome"), map(row, result.findings))
    for finding in (*result.of(FAILING), *result.of(UNDECIDED)):
        typer.echo(f"{finding.cell}: {finding.text}")
    for change in result.changes:
        typer.echo(f"Changed: {change}")
    for cell in result.not_compared:
        typer.echo(f"Not compared: {cell}")
    for caveat in result.caveats:
        typer.echo(f"Mind: {caveat}")
