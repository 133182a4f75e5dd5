"""`specbench verify`: are outputs unchanged, greedy and sampled?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

    from specbench.verification.result import Verification
    from specbench.verification.settings import Subject

_WHAT, _HOW, _ENGINE, _RUN = "What to verify", "Sampling and tests", "The engine", "The run"


def verify(
    method: str = typer.Option(..., help="What proposes tokens; comma-separated.", rich_help_panel=_WHAT),
    backend: str | None = typer.Option(None, help="The engine: reference or vllm.", rich_help_panel=_WHAT),
    target: str | None = typer.Option(
        None, help="The model: demo, a local directory, or a hub id.", rich_help_panel=_WHAT
    ),
    drafter: str | None = typer.Option(
        None, help="Drafter weights: draft_model=DIRECTORY, eagle3=demo.", rich_help_panel=_WHAT
    ),
    gamma: str | None = typer.Option(
        None, help="Tokens proposed per step; 1,2 by default: larger ones hide the bonus token.", rich_help_panel=_WHAT
    ),
    workload: str | None = typer.Option(
        None, help="File of prompts; by default two dozen short ones of specbench's own.", rich_help_panel=_WHAT
    ),
    prompts: int | None = typer.Option(
        None, help="How many prompts (a fixed random choice); 24 by default.", rich_help_panel=_WHAT
    ),
    max_tokens: int | None = typer.Option(
        None, help="Output tokens of the greedy check; 48 by default.", rich_help_panel=_WHAT
    ),
    temperature: float | None = typer.Option(
        None, help="0.8 by default; 0 checks greedy decoding alone.", rich_help_panel=_HOW
    ),
    top_p: float | None = typer.Option(None, help="Nucleus sampling; 0.95 by default.", rich_help_panel=_HOW),
    top_k: int | None = typer.Option(None, help="0 keeps the whole vocabulary.", rich_help_panel=_HOW),
    greedy_only: bool = typer.Option(
        False, "--greedy-only", help="Leave the sampling check out.", rich_help_panel=_HOW
    ),
    draws: int = typer.Option(500, help="Outputs drawn at each fixed context, per arm.", rich_help_panel=_HOW),
    contexts: int = typer.Option(8, help="Fixed contexts.", rich_help_panel=_HOW),
    positions: int = typer.Option(
        1_000, help="Places of other outputs whose probabilities the target is asked for.", rich_help_panel=_HOW
    ),
    level: float = typer.Option(
        1e-3, help="False alarms: the share of verdicts on a correct engine that may be wrong.", rich_help_panel=_HOW
    ),
    find_tv: float = typer.Option(
        0.1, help="Total variation that must not go unseen; else the verdict is INCONCLUSIVE.", rich_help_panel=_HOW
    ),
    seed: int | None = typer.Option(None, help="Fixes the choice of prompts and every draw.", rich_help_panel=_HOW),
    verification: str | None = typer.Option(
        None, help="Of the reference decoder: rejection, or coupled (a seed fixes the tokens).", rich_help_panel=_HOW
    ),
    batch_size: str | None = typer.Option(None, help="Requests in flight; 16 by default.", rich_help_panel=_ENGINE),
    dtype: str | None = typer.Option(None, help="float32 or bfloat16.", rich_help_panel=_ENGINE),
    device: str | None = typer.Option(None, help="cpu or cuda.", rich_help_panel=_ENGINE),
    threads: int | None = typer.Option(None, help="CPU threads of the engine.", rich_help_panel=_ENGINE),
    max_model_len: int | None = typer.Option(
        None, help="Prompt plus output tokens per request; 1024 by default.", rich_help_panel=_ENGINE
    ),
    python: Path | None = typer.Option(
        None, help="Interpreter of the engine's environment; by default the installed one.", rich_help_panel=_ENGINE
    ),
    container: str | None = typer.Option(None, help="Image to run the engine in.", rich_help_panel=_ENGINE),
    engine_arg: list[str] | None = typer.Option(
        None, help="Appended to the engine's command line; repeatable.", rich_help_panel=_ENGINE
    ),
    tensor_parallel: int | None = typer.Option(
        None, help="GPUs that the weights are split over.", rich_help_panel=_ENGINE
    ),
    quantization: str | None = typer.Option(None, help="Such as fp8.", rich_help_panel=_ENGINE),
    memory_fraction: float | None = typer.Option(None, help="Of the device's memory.", rich_help_panel=_ENGINE),
    kv_cache: str | None = typer.Option(None, help="Memory of the KV cache, such as 2GiB.", rich_help_panel=_ENGINE),
    ready_timeout: str | None = typer.Option(
        None, help="Until a start counts as failed, such as 10m.", rich_help_panel=_RUN
    ),
    request_timeout: str | None = typer.Option(
        None, help="Until a request counts as failed, such as 90s.", rich_help_panel=_RUN
    ),
    output: Path | None = typer.Option(
        None,
        help="Directory for verify.json, verify.txt and logs; a new one under reports/ by default.",
        rich_help_panel=_RUN,
    ),
    json_output: bool = typer.Option(
        False, "--json", help="Print the result as one JSON object.", rich_help_panel=_RUN
    ),
    quiet: bool = typer.Option(False, "--quiet", help="No progress.", rich_help_panel=_RUN),
) -> None:
    """Does speculation leave outputs unchanged? Greedy tokens must be the same, sampled ones equally distributed.

    Starts the engine with and without speculation. At temperature 0 it compares token ids; above, it draws thousands
    of outputs at fixed contexts and tests them against the target's own probabilities (the engine's log-probabilities
    after temperature and top-p, where it gives any) and against plain decoding. Says how small a bias it would have
    found, and what a seed fixes with this engine.

    The default effort takes many minutes on a CPU, and says now and then how long the rest takes; fewer --draws and
    --positions take less, and find only larger biases.

    Exit codes: 0 EQUIVALENT, 3 NOT EQUIVALENT, 4 INCONCLUSIVE (no power, or it could not be tested), 1 bad input.

    Example: specbench verify --method ngram --temperature 0.8 --top-p 0.95

    Keys of --json: verdict, engine, settings, notes, greedy, sampling (verdict, reason, level, detectable_tv, power,
    arms), control, acceptance, seeds, seeds_promised.
    """
    options = locals()

    import json

    from specbench.cli.options import given
    from specbench.sweep.config import SweepConfig, load_config
    from specbench.verification.flow import write
    from specbench.verification.result import EXIT_CODES
    from specbench.verification.settings import DEFAULTS, Effort, prepare
    from specbench.verification.text import lines

    def note(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    asked = given(options, SweepConfig.model_fields)
    settings = load_config(None, {**DEFAULTS, **asked, **({"temperature": 0.0} if greedy_only else {})})
    subject = prepare(settings, Effort(draws, contexts, positions, level, find_tv), output, note)
    found = _run(subject, note)
    if found is None:
        raise typer.Exit(130)
    write(subject, found)
    if json_output:
        typer.echo(json.dumps(found.to_json(), indent=2, allow_nan=False))
    else:
        typer.echo("\n".join(lines(found)))
        typer.echo(f"\nResult: {subject.directory}")
    raise typer.Exit(EXIT_CODES[found.outcome])


def _run(subject: Subject, note: Callable[[str], None]) -> Verification | None:
    """None where it was stopped by Ctrl-C or a signal."""
    import asyncio

    try:
        return asyncio.run(_verify(subject, note))
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("specbench: stopped; nothing was decided.")
        return None


async def _verify(subject: Subject, note: Callable[[str], None]) -> Verification:
    from specbench.cli.interrupt import end_as_with_ctrl_c
    from specbench.verification.flow import run_verification

    end_as_with_ctrl_c()
    return await run_verification(subject, note)
