"""`specbench profile`: the acceptance of every gamma from one pass over what was answered."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

import typer

MAX_GAMMA = 64
_OF_LOGS = ("tokenizer", "batch_input", "skip_bad_lines")
_OF_WORKLOADS = ("target", "drafter", "max_tokens", "batch_size", "dtype", "device", "threads")


def profile(
    context: typer.Context,
    logs: Optional[Path] = typer.Option(  # noqa: UP045
        None, help="Prompts and responses: a file of JSON Lines, or a run of specbench sweep. Needs no model."
    ),
    tokenizer: str = typer.Option(
        "words", help="For logs of text: words or bytes (no model), demo, a model's directory, or a hub id."
    ),
    batch_input: Optional[Path] = typer.Option(  # noqa: UP045
        None, help="For the output of OpenAI's batch API, which holds no prompts: its input."
    ),
    skip_bad_lines: bool = typer.Option(False, "--skip-bad-lines", help="Leave broken lines out, and say how many."),
    workload: Optional[str] = typer.Option(  # noqa: UP045
        None, help="Instead of logs: workload files that --target answers first, by plain greedy decoding."
    ),
    target: str = typer.Option("demo", help="The model that answers: demo, a local directory, or a hub id."),
    method: str = typer.Option("ngram,suffix", help="ngram, suffix; and with --workload draft_model, eagle3."),
    drafter: Optional[str] = typer.Option(  # noqa: UP045
        None, help="METHOD=DIRECTORY for methods with weights; demo for the demo target's own."
    ),
    gamma: str = typer.Option("1-8", help="Gammas to profile, as in 1-8 or 1,2,4."),
    cost: Optional[str] = typer.Option(  # noqa: UP045
        None, help="METHOD=COST of a drafted token, in plain decoding steps, as in draft_model=0.1."
    ),
    run: Optional[Path] = typer.Option(  # noqa: UP045
        None, help="A run of specbench sweep to take these costs from, as measured at its smallest batch size."
    ),
    run_batch_size: Optional[int] = typer.Option(None, min=1, help="Another batch size of --run."),  # noqa: UP045
    suffix_cached_requests: int = typer.Option(
        0, min=0, help="Earlier responses that suffix decoding may draft from, in the logs' order; 0 for none."
    ),
    keep_loops: bool = typer.Option(False, "--keep-loops", help="Count responses that end in a loop as well."),
    max_tokens: int = typer.Option(128, min=2, help="Of each answer, where a prompt has no limit of its own."),
    batch_size: int = typer.Option(8, min=1, help="Prompts answered together."),
    dtype: str = typer.Option("float32", help="float32, or bfloat16, in which rounding blurs near ties."),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    threads: Optional[int] = typer.Option(None, min=1, help="CPU threads; all cores by default."),  # noqa: UP045
    output: Optional[Path] = typer.Option(None, help="Directory to write profile.json into."),  # noqa: UP045
    quiet: bool = typer.Option(False, "--quiet", help="No progress."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """The greedy acceptance of every gamma, without running any: which method, which gamma, and is it worth a sweep?

    From logs, without a model: specbench profile --logs answers.jsonl --tokenizer org/model

    From prompts: specbench profile --workload workloads/chat.jsonl --method ngram,eagle3 --drafter eagle3=demo

    Exact for greedy decoding, step by step. For n-gram and suffix the responses may have been sampled as well: such a
    draft is accepted just where the target drew the drafted token itself. The oracle is the bound for every rule that
    sets gamma step by step. Speedup is predicted from the cost of a drafted token alone, as if a wider verification
    cost nothing; with --run both are as measured.

    Keys of --json: source, simulated, unit, tokenizer, skipped, promptless (logs), target, drafters, too_long
    (workloads), requests, loops, keep_loops, suffix_cached_requests, prompt_tokens, response_tokens, seconds, gammas,
    methods [{method, cost_per_drafted_token, cost_source, requests, tokens, gammas [{gamma, steps, drafts, drafted,
    accepted, mean_acceptance_length, mean_acceptance_length_per_draft,
    mean_acceptance_length_per_request, draft_acceptance_rate, alpha, position_acceptance, conditional_acceptance,
    predicted_speedup}], best_gamma (0: none is above 1), best_speedup, oracle_speedup, by_category {name: the same},
    by_output_position [{from, below (null for the last), gammas}]}].
    """
    from specbench.cli.options import pairs, refuse_given, words
    from specbench.errors import SpecbenchError
    from specbench.profile.sources import Asked, profile_logs, profile_workload
    from specbench.profile.step_cost import Cost, run_costs

    def note(sentence: str) -> None:
        if not quiet:
            typer.echo(sentence, err=True)

    if (logs is None) == (workload is None):
        raise SpecbenchError(
            "give either --logs FILE (prompts and responses) or --workload FILE (prompts that --target answers)."
        )
    if logs is not None:
        refuse_given(context, _OF_WORKLOADS, "is for --workload; logs are answered already")
    else:
        refuse_given(context, _OF_LOGS, "is for --logs; a workload is answered by --target")
    if run is None:
        refuse_given(context, ("run_batch_size",), "chooses among the cells of --run RUN, which is missing")
    costs = run_costs(run, run_batch_size) if run else {}
    costs |= {m: Cost.given(c, "--cost") for m, c in pairs(cost, "--cost", "METHOD=COST").items()} if cost else {}
    methods = tuple(dict.fromkeys(words(method, "--method")))
    asked = Asked(methods, _gammas(gamma), costs, suffix_cached_requests, keep_loops)
    if logs is not None:
        report = profile_logs(logs, asked, tokenizer, batch_input, skip_bad_lines, note)
    else:
        files = [Path(file) for file in words(workload or "", "--workload")]
        settings = {"rows": batch_size, "dtype": dtype, "device": device, "threads": threads}
        drafters = pairs(drafter, "--drafter") if drafter else {}
        report = profile_workload(files, asked, target, drafters, max_tokens, settings, note)
    _show(report, output, as_json)


def _gammas(text: str) -> tuple[int, ...]:
    """`1-8` and `1,2,4`, ascending."""
    from specbench.cli.options import whole_numbers, words
    from specbench.errors import SpecbenchError

    found: set[int] = set()
    for part in words(text, "--gamma"):
        first, dash, last = part.partition("-")
        bounds = whole_numbers(f"{first},{last}" if dash else first, "--gamma")
        found |= set(range(bounds[0], bounds[-1] + 1))
    if not found or min(found) < 1 or max(found) > MAX_GAMMA:
        raise SpecbenchError(f"--gamma: gammas are 1 to {MAX_GAMMA}, as in 1-8 or 1,2,4; got {text!r}.")
    return tuple(sorted(found))


def _show(report: dict[str, Any], output: Path | None, as_json: bool) -> None:
    import json

    from specbench.cli.table import print_table
    from specbench.profile import table

    if output is not None:
        from specbench.store.run import write_json

        output.mkdir(parents=True, exist_ok=True)
        write_json(output / "profile.json", report)
    if as_json:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
        return
    for method in report["methods"]:
        name = f"{'SIMULATED: ' if report['simulated'] else ''}{method['method']}"
        print_table(f"{name}: acceptance of every gamma", table.GAMMA_COLUMNS, table.gamma_rows(method))
        if len(method["by_category"]) > 1:
            print_table(f"{name} by category", table.CATEGORY_COLUMNS, table.category_rows(method))
        gamma = method["best_gamma"] or report["gammas"][-1]
        title = f"{name} by output position, gamma {gamma}"
        print_table(title, table.POSITION_COLUMNS, table.position_rows(method, gamma))
    for sentence in (*map(table.verdict, report["methods"]), *table.notes(report)):
        typer.echo(sentence)
