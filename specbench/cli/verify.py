"""`specbench verify`: are outputs unchanged, greedy and sampled?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_Found = TypeVar("_Found")

_WHAT, _HOW, _TASK, _ENGINE, _RUN = "What to verify", "Sampling and tests", "A task", "The engine", "The run"
_OF_A_TASK = ("score", "score_command", "run_code", "max_drop", "samples", "run")
"""Options that mean something with --task alone."""
_OF_THE_TESTS = ("workload", "greedy_only", "draws", "contexts", "positions", "find_tv")
"""Options that mean nothing with it."""
_OF_A_RUN = {"method", "skip_bad_lines"}
"""Options of the configuration that mean something where outputs are stored already."""


def verify(
    context: typer.Context,
    method: str | None = typer.Option(None, help="What proposes tokens; comma-separated.", rich_help_panel=_WHAT),
    backend: str | None = typer.Option(None, help="The engine: reference or vllm.", rich_help_panel=_WHAT),
    target: str | None = typer.Option(
        None, help="The model: demo, a local directory, or a hub id.", rich_help_panel=_WHAT
    ),
    drafter: str | None = typer.Option(
        None, help="Drafter weights: draft_model=DIRECTORY, eagle3=demo.", rich_help_panel=_WHAT
    ),
    gamma: str | None = typer.Option(
        None,
        help="Tokens proposed per step; 1,2 by default, since larger ones hide the bonus token; 4 for a task.",
        rich_help_panel=_WHAT,
    ),
    workload: str | None = typer.Option(
        None, help="File of prompts; by default two dozen short ones of specbench's own.", rich_help_panel=_WHAT
    ),
    prompts: int | None = typer.Option(
        None, help="How many prompts (a fixed random choice); 24 by default, a task's all.", rich_help_panel=_WHAT
    ),
    max_tokens: int | None = typer.Option(
        None, help="Output tokens of the greedy check; 48 by default, 256 of a task's answer.", rich_help_panel=_WHAT
    ),
    tree: str | None = typer.Option(
        None, help="How drafts of heads branch: 8x60, static:4x2x1 (reference, docs/trees.md).", rich_help_panel=_WHAT
    ),
    skip_bad_lines: bool = typer.Option(
        False, "--skip-bad-lines", help="Leave out broken lines of the prompts' file.", rich_help_panel=_WHAT
    ),
    temperature: float | None = typer.Option(
        None, help="0.8 by default; 0 checks greedy decoding alone, and is a task's default.", rich_help_panel=_HOW
    ),
    top_p: float | None = typer.Option(
        None, help="Nucleus sampling; 0.95 by default, 1 for a task.", rich_help_panel=_HOW
    ),
    top_k: int | None = typer.Option(None, help="0 keeps the whole vocabulary.", rich_help_panel=_HOW),
    greedy_only: bool = typer.Option(
        False, "--greedy-only", help="Leave the sampling check out.", rich_help_panel=_HOW
    ),
    draws: int = typer.Option(500, help="Outputs drawn at each fixed context, per arm.", rich_help_panel=_HOW),
    contexts: int = typer.Option(8, help="Fixed contexts.", rich_help_panel=_HOW),
    positions: int = typer.Option(
        1_000, help="Places of other outputs whose probabilities the target is asked for.", rich_help_panel=_HOW
    ),
    level: float | None = typer.Option(
        None,
        help="False alarms: the share of verdicts on a correct engine that may be wrong; 0.001 by default, 0.05 with "
        "--task.",
        rich_help_panel=_HOW,
    ),
    find_tv: float = typer.Option(
        0.1, help="Total variation that must not go unseen; else the verdict is INCONCLUSIVE.", rich_help_panel=_HOW
    ),
    seed: int | None = typer.Option(None, help="Fixes the choice of prompts and every draw.", rich_help_panel=_HOW),
    verification: str | None = typer.Option(
        None,
        help="Of the reference decoder: rejection, block, coupled (a seed fixes the tokens), typical.",
        rich_help_panel=_HOW,
    ),
    task: Path | None = typer.Option(
        None,
        help="Prompts with right answers, in the place of all tests: did the score move? GSM8K, HumanEval, or lines of "
        'your own with "reference".',
        rich_help_panel=_TASK,
    ),
    run: Path | None = typer.Option(
        None, help="Score the outputs that this run has stored; starts no engine.", rich_help_panel=_TASK
    ),
    score: str | None = typer.Option(
        None,
        help="exact, contains, number (the last one), regex or code; by default what the file says, else exact.",
        rich_help_panel=_TASK,
    ),
    score_command: str | None = typer.Option(
        None,
        help="Scores one output: reads a JSON line (id, prompt or messages, reference, output), prints 0 to 1, or "
        "nothing and exits with 0 (right) or 1 (wrong, with nothing on its standard error).",
        rich_help_panel=_TASK,
    ),
    run_code: bool = typer.Option(
        False,
        "--run-code",
        help="Allow to RUN code that the model wrote (HumanEval): limits of time and memory, no network where unshare "
        "works, but your files are within its reach; where it does not, the environment of your processes is too.",
        rich_help_panel=_TASK,
    ),
    max_drop: str = typer.Option(
        "2%", help="Drop of the score that must be ruled out; else the verdict is INCONCLUSIVE.", rich_help_panel=_TASK
    ),
    samples: int | None = typer.Option(
        None, help="Outputs per prompt at a --temperature; 4 by default.", rich_help_panel=_TASK
    ),
    batch_size: str | None = typer.Option(None, help="Requests in flight; 16 by default.", rich_help_panel=_ENGINE),
    dtype: str | None = typer.Option(
        None, help="float32 or bfloat16; on a GPU bfloat16, unless given.", rich_help_panel=_ENGINE
    ),
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
    quantization: str | None = typer.Option(
        None, help="Such as fp8; the reference decoder has int8 and int4.", rich_help_panel=_ENGINE
    ),
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

    With --task FILE it asks what differences are worth instead: are answers right less often? Prompts are paired, and
    the verdict is WORSE, NOT WORSE (a drop of more than --max-drop is ruled out) or INCONCLUSIVE; greedy by default.

    Exit codes: 0 EQUIVALENT or NOT WORSE, 3 NOT EQUIVALENT or WORSE, 4 INCONCLUSIVE (no power, or it could not be
    tested), 1 bad input.

    Example: specbench verify --method ngram --temperature 0.8 --top-p 0.95

    Example: specbench verify --method ngram --task gsm8k.jsonl --max-tokens 512

    Keys of --json: verdict, engine, settings, notes, greedy, sampling (verdict, reason, level, detectable_tv, power,
    arms), control, acceptance, seeds, seeds_promised. With --task: verdict, engine, settings, notes, task, whose keys
    are in docs/columns.md.
    """
    options = {name: value for name, value in locals().items() if name != "context"}

    import json

    from specbench.cli.options import given, percentage, refuse_given, words
    from specbench.errors import SpecbenchError
    from specbench.sweep.config import SweepConfig
    from specbench.sweep.config_file import load_config
    from specbench.tasks.paired import LEVEL as TASK_LEVEL
    from specbench.verification import settings
    from specbench.verification.flow import run_verification, write
    from specbench.verification.task import TASK_DEFAULTS, Question, run_task, stored_verification
    from specbench.verification.text import lines, task_lines
    from specbench.workloads.load import load_workload

    def note(text: str) -> None:
        if not quiet:
            typer.echo(text, err=True)

    if task is None:
        refuse_given(context, _OF_A_TASK, "is about a task's score: add --task FILE")
    else:
        refuse_given(context, _OF_THE_TESTS, "is of the tests that --task takes the place of")
    if run is not None:
        refuse_given(context, {*SweepConfig.model_fields, "samples"} - _OF_A_RUN, "cannot change what --run has stored")
    elif backend == "attach":
        raise SpecbenchError(
            "verify starts the engine with and without speculation, and --backend attach starts none: name the engine, "
            "or compare the greedy outputs of two servers that run by a sweep (specbench sweep --backend attach)."
        )
    elif method is None:
        raise SpecbenchError("name with --method what proposes tokens, as in --method ngram.")
    asked = given(options, SweepConfig.model_fields)
    found: Any
    directory: Path | None
    if task is None:
        effort = settings.Effort(draws, contexts, positions, settings.LEVEL if level is None else level, find_tv)
        greedy = {"temperature": 0.0} if greedy_only else {}
        subject = settings.prepare(load_config(None, {**settings.DEFAULTS, **asked, **greedy}), effort, output, note)
        directory, found = subject.directory, _run(run_verification(subject, note), note)
    else:
        drop, alarms = percentage(max_drop, "--max-drop"), TASK_LEVEL if level is None else level
        question = Question(score, score_command, run_code, samples, drop, alarms)
        asked_of = load_workload(task, skip_bad_lines)
        if run is not None:
            methods = words(method, "--method") if method else ()
            directory, found = output, stored_verification(run, asked_of, methods, question)
        else:
            config = load_config(None, {**TASK_DEFAULTS, **asked, "workload": [task]})
            question.check(config, asked_of)
            subject = settings.prepare(config, settings.Effort(), output, note)
            directory, found = subject.directory, _run(run_task(subject, question, note), note)
    if found is None:
        raise typer.Exit(130)
    text = lines(found) if task is None else task_lines(found)
    if directory is not None:
        write(directory, found.to_json(), text)
    if json_output:
        typer.echo(json.dumps(found.to_json(), indent=2, allow_nan=False))
    else:
        typer.echo("\n".join(text))
        if directory is not None:
            typer.echo(f"\nResult: {directory}")
    raise typer.Exit(found.exit_code)


def _run(verification: Coroutine[Any, Any, _Found], note: Callable[[str], None]) -> _Found | None:
    """None where it was stopped by Ctrl-C or a signal."""
    import asyncio

    try:
        return asyncio.run(_until_ended(verification))
    except (KeyboardInterrupt, asyncio.CancelledError):
        note("specbench: stopped; nothing was decided.")
        return None


async def _until_ended(verification: Coroutine[Any, Any, _Found]) -> _Found:
    from specbench.cli.interrupt import end_as_with_ctrl_c

    end_as_with_ctrl_c()
    return await verification
