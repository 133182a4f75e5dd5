"""`specbench backend`: which engines there are, how to get one, and the exact line that starts it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from specbench.backends.base import Backend, Command, EngineOptions
    from specbench.sweep.config import SweepConfig

app = typer.Typer(help="Engines: list them, install one, print the command that starts it.", no_args_is_help=True)

PRINTED_PORT = "8000"
"""Stands in printed commands where a sweep takes a free port."""


@app.command("list")
def list_backends(as_json: bool = typer.Option(False, "--json", help="Print one JSON object.")) -> None:
    """The engines that specbench drives, the methods that each runs, and where it is installed.

    Example: specbench backend list

    Keys of --json: per backend its methods, installed: a list of {version, variant (cpu, gpu or parser), python}, and
    untried: what is not known of the adapter yet, or null.
    """
    import json

    from specbench.backends import NAMES, UNTRIED, get_backend
    from specbench.backends.environments import installed
    from specbench.cli.table import print_table

    found = {name: installed(name) for name in NAMES}
    if as_json:
        report = {
            name: {
                "methods": get_backend(name).methods,
                "installed": [
                    {"version": e.version, "variant": e.variant, "python": str(e.python)} for e in environments
                ],
                "untried": UNTRIED.get(name),
            }
            for name, environments in found.items()
        }
        typer.echo(json.dumps(report, indent=2))
        return
    rows = [
        (name, ", ".join(get_backend(name).methods), _where(name, found[name]), UNTRIED.get(name, "")) for name in NAMES
    ]
    print_table("specbench backend list", ("backend", "methods", "installed", "note"), rows)


@app.command()
def install(
    engine: str = typer.Argument(help="Which one: vllm or sglang."),
    cpu: bool = typer.Option(False, "--cpu", help="The build for machines without a GPU."),
    parser_only: bool = typer.Option(
        False, "--parser-only", help="SGLang's command line alone, to try a launch without a GPU; runs no model."
    ),
    version: str | None = typer.Option(None, help="Another version than the one that specbench was tested with."),
    extras: str | None = typer.Option(
        None, "--with", help="For vLLM: suffix (what method suffix needs; compiled, minutes), bench (its own client)."
    ),
    quiet: bool = typer.Option(False, "--quiet", help="No progress."),
) -> None:
    """Install an engine into an environment of its own, in specbench's cache. Run again, it goes on where it stopped.

    Example: specbench backend install vllm --cpu
    """
    from specbench.backends.environments import PARSER
    from specbench.backends.environments import install as install_engine
    from specbench.cli.options import words

    environment = install_engine(
        engine,
        PARSER if parser_only else "cpu" if cpu else "gpu",
        version,
        (lambda text: None) if quiet else lambda text: typer.echo(text, err=True),
        words(extras, "--with") if extras else (),
    )
    typer.echo(environment.python)


@app.command()
def command(
    backend: str | None = typer.Option(None, help="The engine, such as vllm."),
    target: str | None = typer.Option(None, help="demo, a local directory, or a hub id; nothing is fetched."),
    method: str | None = typer.Option(None, help="Comma-separated."),
    drafter: str | None = typer.Option(None, help="Drafter weights: eagle3=DIRECTORY."),
    gamma: str | None = typer.Option(None, help="Comma-separated."),
    batch_size: str | None = typer.Option(None, help="Comma-separated; the largest is the server's limit."),
    max_model_len: int | None = typer.Option(None),
    dtype: str | None = typer.Option(None, help="float32 or bfloat16; on a GPU bfloat16, unless given."),
    device: str | None = typer.Option(None, help="cpu or cuda."),
    threads: int | None = typer.Option(None, help="CPU threads of the engine."),
    verification: str | None = typer.Option(None, help="Of the reference decoder: rejection, block, coupled, typical."),
    tree: str | None = typer.Option(None, help="Of the reference decoder: chain, 8x60, static:4x2x1; comma-separated."),
    suffix_cached_requests: str | None = typer.Option(
        None, help="Earlier responses that suffix decoding drafts from; comma-separated."
    ),
    python: Path | None = typer.Option(None, help="Interpreter of the engine's environment."),
    container: str | None = typer.Option(None, help="Image to run the engine in."),
    scenario: Path | None = typer.Option(None, help="What the simulated backend does, as YAML."),
    engine_arg: list[str] | None = typer.Option(None, help="Appended to the engine's command line; repeatable."),
    engine_version: str | None = typer.Option(None, help="TensorRT-LLM's, where the image's tag does not tell it."),
    tensor_parallel: int | None = typer.Option(None),
    quantization: str | None = typer.Option(None),
    memory_fraction: float | None = typer.Option(None),
    kv_cache: str | None = typer.Option(None, help="Such as 2GiB."),
    prefix_caching: bool | None = typer.Option(None, "--prefix-caching/--no-prefix-caching"),
    baseline: str | None = typer.Option(None, help="matched, as-deployed or both."),
    config: Path | None = typer.Option(None, help="A sweep's YAML file with any of these."),
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object."),
) -> None:
    """Print, for each arm of a sweep, the exact command, environment and files that would start its server.

    Starts nothing, fetches nothing. Options mean what they mean to `specbench sweep`; the port is free to choose.

    Example: specbench backend command --backend vllm --method ngram --gamma 4

    Keys of --json: per arm (none, ngram-g4, …) its argv, env and files.
    """
    options = locals()

    import json
    from dataclasses import asdict

    from specbench.cli.options import given
    from specbench.sweep.config import SweepConfig
    from specbench.sweep.config_file import load_config

    # A command does not depend on prompts, a configuration has to have some.
    placeholder = {} if config else {"workload": ["prompts.jsonl"]}
    settings = load_config(config, {**placeholder, **given(options, SweepConfig.model_fields)})
    commands = _commands(settings)
    if as_json:
        typer.echo(json.dumps({label: asdict(made) for label, made in commands.items()}, indent=2))
        return
    typer.echo("\n\n".join(f"# {label}\n{_shell(made)}" for label, made in commands.items()))


def _commands(config: SweepConfig) -> dict[str, Command]:
    from specbench.backends import get_backend
    from specbench.backends.base import check_adaptive
    from specbench.drafter import demo_drafter_path
    from specbench.sweep.launch import check_options, make_launch

    backend = get_backend(config.backend)
    options = _located(check_options(config, backend), backend, config.device)
    target = _directory(config.target)
    drafters = {m: demo_drafter_path(m, name) or _directory(name) for m, name in config.drafter.items()}
    commands = {}
    for speculation in config.speculations():
        backend.check(speculation)
        check_adaptive(backend, speculation)
        commands[speculation.label] = backend.command(make_launch(config, speculation, target, drafters, options))
    return commands


def _located(options: EngineOptions, backend: Backend, device: str) -> EngineOptions:
    """Where the engine is; where it will be, if it is not there yet."""
    from dataclasses import replace

    from specbench.backends.environments import RECIPES
    from specbench.errors import SpecbenchError
    from specbench.sweep.launch import locate_engine

    try:
        return locate_engine(options, backend, device)
    except SpecbenchError as error:
        recipe = RECIPES.get((backend.name, "cpu" if device == "cpu" else "gpu"))
        if options.python is not None or options.container is not None or recipe is None:
            raise
        typer.echo(f"Note: {error}", err=True)
        return replace(options, python=recipe.path() / "bin" / "python")


def _directory(name: str) -> Path:
    """A model's directory as far as it is known without fetching it."""
    from specbench.demo import demo_target_path
    from specbench.paths import expand_home

    path = expand_home(name)
    return demo_target_path() if name == "demo" else path.absolute() if path.is_dir() else Path(name)


def _shell(command: Command) -> str:
    import shlex

    # The files are expected where the line is run.
    argv = [part.replace("{port}", PRINTED_PORT).replace("{files}", str(Path.cwd())) for part in command.argv]
    env = [f"{name}={shlex.quote(value)}" for name, value in command.env.items()]
    files = [f"\n# file {name}:\n{content}" for name, content in command.files.items()]
    return " ".join([*env, shlex.join(argv)]) + "".join(files)


def _where(name: str, environments: list[Any]) -> str:
    from specbench.backends.environments import ELSEWHERE

    if name in ("reference", "simulated"):
        return "comes with specbench"
    if name == "attach":
        return "runs already: specbench sweep --backend attach --url URL"
    if name in ELSEWHERE:
        return "--container IMAGE or --python PATH"
    return "; ".join(f"{e.version} ({e.variant})" for e in environments) or "no: specbench backend install " + name
