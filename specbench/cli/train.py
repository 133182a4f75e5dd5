"""`specbench train`: a drafter for the user's own target and prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

import typer

if TYPE_CHECKING:
    from specbench.train.pipeline import Recipe
    from specbench.train.report import TrainingReport

app = typer.Typer(help="Train a drafter for your own target and prompts.", no_args_is_help=True)


@app.callback()
def _train() -> None: ...


_OUTPUT = typer.Option(help="Directory for data, checkpoints and the drafter; a killed run goes on in it.")
_DATA = typer.Option(None, help="Directory of the recorded answers, for trainings to share; OUTPUT/data by default.")
_TARGET = typer.Option("demo", help="The model: demo, a local directory, or a hub id.")
_PROMPTS = typer.Option(None, help="Workload files to train on, separated by commas.")
_MAGPIE = typer.Option(0, min=0, help="Further prompts that the target writes itself.")
_EVALUATE = typer.Option(None, help="Workload files to judge by, never trained on.")
_EPOCHS = typer.Option(5, min=1, help="Passes over the recorded answers.")
_MAX_TOKENS = typer.Option(160, min=16, help="Of each recorded answer, where a prompt has no limit of its own.")
_GAMMA = typer.Option(3, min=1, help="Draft length of the acceptance report.")
_THREADS = typer.Option(None, min=1, help="CPU threads; all cores by default.")
_SEED = typer.Option(0, help="Of the initial weights and the order of the answers.")
_QUIET = typer.Option(False, "--quiet", help="No progress.")
_JSON = typer.Option(False, "--json", help="Print the report as one JSON object.")


@app.command()
def eagle3(
    output: Path = _OUTPUT,
    data: Optional[Path] = _DATA,  # noqa: UP045
    target: str = _TARGET,
    prompts: Optional[str] = _PROMPTS,  # noqa: UP045
    magpie: int = _MAGPIE,
    evaluate: Optional[str] = _EVALUATE,  # noqa: UP045
    epochs: int = _EPOCHS,
    max_tokens: int = _MAX_TOKENS,
    vocabulary: int = typer.Option(8192, min=1, help="Tokens that the head can propose."),
    initial: Optional[str] = typer.Option(  # noqa: UP045
        None, "--from", help="A head to begin with (demo, or a directory): fine-tuning to your prompts."
    ),
    gamma: int = _GAMMA,
    learning_rate: float = typer.Option(2e-3, min=1e-6, help="The highest; it falls to zero on a cosine."),
    threads: Optional[int] = _THREADS,  # noqa: UP045
    seed: int = _SEED,
    quiet: bool = _QUIET,
    as_json: bool = _JSON,
) -> None:
    """Train an EAGLE-3 head on the target's own answers to your prompts, and report its acceptance on held-out ones.

    Example: specbench train eagle3 --target demo --prompts workloads/chat.jsonl --magpie 500 --output my-head

    Run the same command again after an interruption: what was recorded and learned is kept. The head is written to
    OUTPUT/safeailab (for SGLang, vLLM and the reference decoder) and OUTPUT/speculators (for vLLM); use it as
    --drafter eagle3=OUTPUT/safeailab.

    Keys of --json: method, target, machine, trained_on, evaluated_on (name, sha256, prompts), records, answer_tokens,
    epochs, draft_vocab_size, coverage, held_out, gamma, acceptance {set: prompts, loops_left_out, steps,
    mean_acceptance_length, draft_acceptance_rate, position_acceptance}.
    """
    options = locals()
    _begin(quiet, threads)

    from specbench.drafter import resolve_drafter
    from specbench.train.pipeline import train_method

    recipe = _recipe(options, initial=resolve_drafter("eagle3", initial, _note) if initial else None)
    where = f"The head is in {output / 'safeailab'} and {output / 'speculators'}."
    _show(train_method(recipe, "eagle3"), where, as_json)


def _head_command(method: str) -> Callable[..., None]:
    def command(
        output: Path = _OUTPUT,
        data: Optional[Path] = _DATA,  # noqa: UP045
        target: str = _TARGET,
        prompts: Optional[str] = _PROMPTS,  # noqa: UP045
        magpie: int = _MAGPIE,
        evaluate: Optional[str] = _EVALUATE,  # noqa: UP045
        epochs: int = _EPOCHS,
        max_tokens: int = _MAX_TOKENS,
        vocabulary: int = typer.Option(8192, min=1, help="Tokens over which head and target are compared."),
        gamma: int = _GAMMA,
        learning_rate: float = typer.Option(2e-3, min=1e-6, help="The highest; it falls to zero on a cosine."),
        threads: Optional[int] = _THREADS,  # noqa: UP045
        seed: int = _SEED,
        quiet: bool = _QUIET,
        as_json: bool = _JSON,
    ) -> None:
        options = locals()
        _begin(quiet, threads)

        from specbench.train.pipeline import HEAD, train_method

        _show(train_method(_recipe(options), method), f"The head is in {output / HEAD}.", as_json)

    return command


_HEADS = {
    "eagle": "an EAGLE-1 head, in SafeAILab's layout (vLLM, SGLang, the reference decoder)",
    "medusa": "four Medusa heads, in vLLM's layout (vLLM, the reference decoder)",
    "mtp": "a head for multi-token prediction, in the layout of vLLM's speculators (the reference decoder)",
}
for _method, _what in _HEADS.items():
    app.command(
        _method,
        help=f"Train {_what}, on the target's own answers to your prompts.\n\n"
        f"Example: specbench train {_method} --target demo --prompts workloads/chat.jsonl --output my-head\n\n"
        f"Works as specbench train eagle3, and reports the same; use the head as --drafter {_method}=OUTPUT/head.",
    )(_head_command(_method))


@app.command("draft-model")
def draft_model(
    output: Path = _OUTPUT,
    data: Optional[Path] = _DATA,  # noqa: UP045
    target: str = _TARGET,
    layers: str = typer.Option(help="The target's layers to begin with, as in 0,1,2,28,29."),
    prompts: Optional[str] = _PROMPTS,  # noqa: UP045
    magpie: int = _MAGPIE,
    evaluate: Optional[str] = _EVALUATE,  # noqa: UP045
    epochs: int = _EPOCHS,
    max_tokens: int = _MAX_TOKENS,
    vocabulary: int = typer.Option(8192, min=1, help="Tokens over which draft model and target are compared."),
    gamma: int = _GAMMA,
    learning_rate: float = typer.Option(1e-3, min=1e-6, help="The highest; it falls to zero on a cosine."),
    threads: Optional[int] = _THREADS,  # noqa: UP045
    seed: int = _SEED,
    quiet: bool = _QUIET,
    as_json: bool = _JSON,
) -> None:
    """Distil a draft model from some of the target's layers, on the target's own answers to your prompts.

    Example: specbench train draft-model --target demo --layers 0,1,2,28,29 --magpie 1000 --output my-draft

    Works as `specbench train eagle3`, and reports the same; the draft model is written to OUTPUT/draft_model, and to
    OUTPUT/draft_model_reduced with a head for the frequent tokens alone, which only the reference decoder loads.
    """
    options = locals()
    _begin(quiet, threads)

    from specbench.cli.options import whole_numbers
    from specbench.train.pipeline import train_draft

    numbers = whole_numbers(layers, "--layers")
    recipe = _recipe(options)
    report = train_draft(recipe, numbers)
    _show(report, f"The draft model is in {output / 'draft_model'}.", as_json)


def _recipe(options: Mapping[str, Any], **more: Any) -> Recipe:
    """What both kinds of training are told alike. options: a command's, by name"""
    from specbench.target import resolve_target
    from specbench.train.loop import TrainSettings
    from specbench.train.pipeline import Recipe

    settings = TrainSettings(**{name: options[name] for name in ("epochs", "learning_rate", "seed")})
    same = ("output", "data", "magpie", "max_tokens", "vocabulary", "gamma")
    return Recipe(
        target=resolve_target(options["target"], _note),
        target_name=options["target"],
        prompts=_files(options["prompts"], "--prompts"),
        evaluate=_files(options["evaluate"], "--evaluate"),
        settings=settings,
        **{name: options[name] for name in same},
        **more,
    )


def _begin(quiet: bool, threads: int | None) -> None:
    import logging
    import os

    # As the reference server has it, for the same reason (backends/reference.py); read when torch is imported.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")

    import torch

    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if threads is not None:
        torch.set_num_threads(threads)


def _note(sentence: str) -> None:
    typer.echo(sentence, err=True)


def _files(text: str | None, flag: str) -> tuple[Path, ...]:
    from specbench.cli.options import words

    return tuple(Path(file) for file in words(text, flag)) if text else ()


def _show(report: TrainingReport, where: str, as_json: bool) -> None:
    import json

    from specbench.cli.table import print_table
    from specbench.train.report import table

    if as_json:
        typer.echo(json.dumps(report.as_dict(), indent=2, ensure_ascii=False))
        return
    rows = table(report.as_dict()["acceptance"])
    headers = ("prompts of", "prompts", "loops left out", "mean acceptance length", "acceptance by position")
    print_table(f"Acceptance of greedy drafts at gamma {report.gamma}, on prompts never trained on", headers, rows)
    typer.echo(
        f"Trained on {report.records} answers ({report.answer_tokens} tokens) to "
        f"{', '.join(prompts.name for prompts in report.trained_on)}. {where}"
    )
