"""The `specbench` command: a line per subcommand. Heavy imports stand inside the commands, so that --help is quick."""

from __future__ import annotations

import errno
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from specbench import __version__
from specbench.cli import (
    backend,
    baseline,
    claim,
    compare,
    doctor,
    fit,
    gate,
    gpus,
    history,
    plan,
    power,
    profile,
    query,
    recommend,
    report,
    serve,
    simulate,
    sweep,
    train,
    verify,
    workload,
)
from specbench.cli.defaults import ConfiguredCommand
from specbench.errors import SpecbenchError


class _QuickHelp(TyperGroup):
    """The list of commands in plain text: rich would take longer to import than all else. Commands keep rich help."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "rich_markup_mode": None})


app = typer.Typer(
    name="specbench",
    cls=_QuickHelp,
    help="Should this LLM deployment use speculative decoding: which method, which gamma, up to which batch size, "
    "and what does it save? Start with: specbench sweep --workload workloads/chat.jsonl",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"specbench {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None: ...


app.command(cls=ConfiguredCommand, short_help="The main job: measure speculation against plain decoding.")(sweep.sweep)
app.command(short_help="Show a run again, and write its report anew.")(report.report)
app.command(short_help="What to switch on: method, gamma, the engine's flags.")(recommend.recommend)
app.command(short_help="A performance model from a run, and what it predicts.")(fit.fit)
app.command(short_help="A fleet under traffic, request by request.")(simulate.simulate)
app.command(short_help="How many GPUs, at what cost, with or without speculation.")(plan.plan)
app.command(short_help="Runs side by side: what changed, and what that did.")(compare.compare)
app.command(short_help="Trends over a folder of runs, as table and plot.")(history.history)
app.command(short_help="SQL over a folder of runs.")(query.query)
app.command(short_help="Are outputs unchanged by speculation, greedy and sampled?")(verify.verify)
app.command(short_help="The acceptance of every gamma, from logs or one pass.")(profile.profile)
app.command(short_help="An OpenAI-compatible server: reference decoder or known truth.")(serve.serve)
app.add_typer(workload.app, name="workload", short_help="Prompts and traffic: look at them, convert them.")
app.add_typer(backend.app, name="backend", short_help="Engines: list, install, print the command that starts one.")
app.add_typer(train.app, name="train", short_help="A drafter for your own target and prompts.")
app.command(short_help="How much to measure, to see a change of some size.")(power.power)
app.command(short_help="For CI: is it slower than it was, or are outputs wrong?")(gate.gate)
app.add_typer(baseline.app, name="baseline", short_help="Keep a run's figures for the gate.")
app.command(short_help="Is a published figure possible?")(claim.claim)
app.command(short_help="GPUs: memory, bandwidth, FLOP/s, prices.")(gpus.gpus)
app.command(short_help="What is here, what is missing, what was left behind.")(doctor.doctor)


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 bad input, 2 usage, 3 negative verdict, 4 inconclusive, 5 cells failed."""
    try:
        app()
    except SpecbenchError as error:
        print(f"specbench: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # `specbench … | head`
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        hint = ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = " Free some space; a sweep then goes on with --resume --output RUN."
        print(f"specbench: {where}{error.strerror or error}.{hint}", file=sys.stderr)
        sys.exit(1)
