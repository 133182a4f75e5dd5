"""`specbench sweep`: plan, launch, replay, measure, check, report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from specbench.sweep.config import SweepConfig
    from specbench.sweep.plan import SweepPlan
    from specbench.sweep.runner import Sweep

_WHAT, _LOAD, _MONEY, _RUN = "What to measure", "Load and sampling", "Money", "The run"
_ATTACH = "Servers that already run (attach)"
_ENGINE = "Engines of their own (vllm)"


def sweep(
    workload: str | None = typer.Option(
        None, help="Prompt file(s), comma-separated; each is measured by itself.", rich_help_panel=_WHAT
    ),
    format: str | None = typer.Option(
        None,
        help="What the prompt files are, where their fields do not tell (docs/workloads.md).",
        rich_help_panel=_WHAT,
    ),
    backend: str | None = typer.Option(
        None,
        help="The engine: reference, vllm, sglang, tensorrt-llm, simulated, or attach for servers that already run.",
        rich_help_panel=_WHAT,
    ),
    target: str | None = typer.Option(
        None,
        help="The model: demo, a local directory, or a hub id. Of attached servers the name that they answer to.",
        rich_help_panel=_WHAT,
    ),
    url: str | None = typer.Option(
        None,
        help="The server that speculates, such as http://127.0.0.1:8000. Alone: its acceptance and latency.",
        rich_help_panel=_ATTACH,
    ),
    baseline_url: str | None = typer.Option(
        None, help="The same without speculation, running beside it: what speedups are of.", rich_help_panel=_ATTACH
    ),
    api_key_env: str | None = typer.Option(
        None,
        help="Variable that holds the servers' API key. The key goes into requests and nowhere else.",
        rich_help_panel=_ATTACH,
    ),
    header: list[str] | None = typer.Option(
        None, help="Header of every request, NAME=VALUE; repeatable; kept in the run.", rich_help_panel=_ATTACH
    ),
    header_env: list[str] | None = typer.Option(
        None, help="The same with a secret in a variable: NAME=VARIABLE; repeatable.", rich_help_panel=_ATTACH
    ),
    ca_file: Path | None = typer.Option(
        None, help="Certificate authority to trust besides the system's, PEM.", rich_help_panel=_ATTACH
    ),
    allow_reset: bool | None = typer.Option(
        None,
        "--allow-reset/--no-allow-reset",
        help="Empty the servers' prefix caches before each measurement, everybody's with it.",
        rich_help_panel=_ATTACH,
    ),
    method: str | None = typer.Option(
        None,
        help="ngram, suffix, draft_model, eagle3, eagle, medusa, mtp, layer_skip, ssd (what the engine runs of them); "
        "comma-separated. none is always measured.",
        rich_help_panel=_WHAT,
    ),
    drafter: str | None = typer.Option(
        None, help="Drafter weights: draft_model=DIRECTORY, eagle3=demo.", rich_help_panel=_WHAT
    ),
    gamma: str | None = typer.Option(
        None,
        help="Tokens proposed per step; comma-separated. One of them may be a schedule by batch size, as in "
        "2,4,schedule:1=4+9=0 (docs/recommend.md), and the reference decoder takes rules: adaptive:threshold, "
        "adaptive:goodput, adaptive:confidence (docs/gamma.md).",
        rich_help_panel=_WHAT,
    ),
    tree: str | None = typer.Option(
        None,
        help="How drafts of heads branch, to the depth of --gamma: 8x60 (the 8 likeliest of each depth, 60 nodes), "
        "static:4x2x1 (children by depth), chain; comma-separated (reference, docs/trees.md).",
        rich_help_panel=_WHAT,
    ),
    suffix_cached_requests: str | None = typer.Option(
        None,
        help="Earlier responses that suffix decoding drafts from, comma-separated; 0, the default, for none. Each "
        "measurement then has a server of its own, which first answers so many of the prompts that --prompts leaves "
        "(reference, vllm; docs/drafters.md).",
        rich_help_panel=_WHAT,
    ),
    batch_size: str | None = typer.Option(
        None, help="Requests kept in flight; comma-separated.", rich_help_panel=_WHAT
    ),
    request_rate: str | None = typer.Option(
        None,
        help="Requests per second, comma-separated: an open loop instead of batch sizes. The largest --batch-size is "
        "then the server's limit.",
        rich_help_panel=_WHAT,
    ),
    arrival: str | None = typer.Option(
        None,
        help="How an open loop's requests come: poisson, gamma:CV (2 is bursty), constant, or trace:FILE (with its own "
        "times where no rate is given).",
        rich_help_panel=_LOAD,
    ),
    slo: str | None = typer.Option(
        None, help="Latency bounds for goodput: ttft_p95=500ms,tpot_p95=50ms (or e2e).", rich_help_panel=_LOAD
    ),
    prompts: int | None = typer.Option(
        None, help="How many prompts of each workload (a fixed random choice); all by default.", rich_help_panel=_LOAD
    ),
    requests: int | None = typer.Option(
        None, help="Requests per measurement; prompts are sent again where they are fewer.", rich_help_panel=_LOAD
    ),
    max_tokens: int | None = typer.Option(None, help="Output tokens per request.", rich_help_panel=_LOAD),
    temperature: float | None = typer.Option(None, help="0 is greedy decoding.", rich_help_panel=_LOAD),
    top_p: float | None = typer.Option(None, help="Nucleus sampling.", rich_help_panel=_LOAD),
    top_k: int | None = typer.Option(None, help="0 keeps the whole vocabulary.", rich_help_panel=_LOAD),
    seed: int | None = typer.Option(None, help="Fixes the choice of prompts and every request.", rich_help_panel=_LOAD),
    verification: str | None = typer.Option(
        None,
        help="How the reference decoder verifies sampled drafts: rejection, block (keeps more), coupled (a seed fixes "
        "the tokens), or typical (keeps what is likely enough: outputs are not the target's, every figure says so).",
        rich_help_panel=_LOAD,
    ),
    acceptance: str | None = typer.Option(
        None,
        help="Make acceptance up, to price a drafter that does not exist yet: synthetic:0.8, or a rate per draft "
        "position. All work is done, outputs are not the target's, every figure says so (reference).",
        rich_help_panel=_LOAD,
    ),
    repeats: int | None = typer.Option(None, help="Measurements of a cell within one launch.", rich_help_panel=_RUN),
    replicates: int | None = typer.Option(
        None, help="Launches of each arm, interleaved; confidence intervals rest on them.", rich_help_panel=_RUN
    ),
    until_ci: str | None = typer.Option(
        None,
        help="Add replicates until every speedup is known to so much either way, such as 3%.",
        rich_help_panel=_RUN,
    ),
    max_replicates: int | None = typer.Option(None, help="Where --until-ci stops all the same.", rich_help_panel=_RUN),
    until_confident: bool | None = typer.Option(
        None,
        "--until-confident/--no-until-confident",
        help="Measure the cells that tell most, one after another, until the best arm at each batch size is known; "
        "what is skipped is predicted, and marked so (docs/sequential.md).",
        rich_help_panel=_RUN,
    ),
    confidence: str | None = typer.Option(
        None, help="How sure --until-confident asks to be, 95% by default.", rich_help_panel=_RUN
    ),
    budget: str | None = typer.Option(
        None,
        help="As --until-confident, and at most so much of the whole grid's predicted time: 20%, or 30m. With --resume "
        "100% measures the rest of the grid.",
        rich_help_panel=_RUN,
    ),
    baseline_vs_baseline: bool | None = typer.Option(
        None,
        "--baseline-vs-baseline/--no-baseline-vs-baseline",
        help="Measure the baseline a second time, as if it were a method: the noise floor of every speedup.",
        rich_help_panel=_RUN,
    ),
    dtype: str | None = typer.Option(
        None, help="float32 or bfloat16; on a GPU bfloat16, unless given.", rich_help_panel=_WHAT
    ),
    device: str | None = typer.Option(None, help="cpu or cuda.", rich_help_panel=_WHAT),
    threads: int | None = typer.Option(None, help="CPU threads of the engine.", rich_help_panel=_WHAT),
    max_model_len: int | None = typer.Option(
        None, help="Prompt plus output tokens per request.", rich_help_panel=_LOAD
    ),
    python: Path | None = typer.Option(
        None, help="Interpreter of the engine's environment; by default the installed one.", rich_help_panel=_ENGINE
    ),
    container: str | None = typer.Option(
        None, help="Image to run the engine in, with docker or podman.", rich_help_panel=_ENGINE
    ),
    scenario: Path | None = typer.Option(
        None,
        help="What --backend simulated does, as YAML: acceptance and step times of hardware that one does not have.",
        rich_help_panel=_WHAT,
    ),
    engine_arg: list[str] | None = typer.Option(
        None,
        help="Appended to the engine's command line; repeatable: --engine-arg=--block-size=32. For TensorRT-LLM also "
        "NAME=VALUE, into its configuration file.",
        rich_help_panel=_ENGINE,
    ),
    engine_version: str | None = typer.Option(
        None,
        help="TensorRT-LLM's, such as 1.2.1, where neither the image's tag nor the environment tells it.",
        rich_help_panel=_ENGINE,
    ),
    tensor_parallel: int | None = typer.Option(
        None, help="GPUs that the weights are split over.", rich_help_panel=_ENGINE
    ),
    quantization: str | None = typer.Option(
        None, help="Such as fp8; the reference decoder has int8 and int4.", rich_help_panel=_ENGINE
    ),
    memory_fraction: float | None = typer.Option(
        None, help="Of the device's memory, for weights and KV cache.", rich_help_panel=_ENGINE
    ),
    kv_cache: str | None = typer.Option(
        None, help="Memory of the KV cache, such as 2GiB, of each GPU.", rich_help_panel=_ENGINE
    ),
    prefix_caching: bool | None = typer.Option(
        None,
        "--prefix-caching/--no-prefix-caching",
        help="Share the KV cache of common beginnings, in every arm.",
        rich_help_panel=_ENGINE,
    ),
    baseline: str | None = typer.Option(
        None,
        help="matched: all arms have the same settings. as-deployed: each has the engine's own defaults for it. both: "
        "matched, and the engine's own defaults without speculation beside them.",
        rich_help_panel=_ENGINE,
    ),
    chat_template_kwargs: str | None = typer.Option(
        None, help="For the server's chat template, such as enable_thinking=false.", rich_help_panel=_LOAD
    ),
    gpu_price: float | None = typer.Option(None, help="Price of one GPU-hour.", rich_help_panel=_MONEY),
    gpu_count: int | None = typer.Option(None, help="GPUs that one server uses.", rich_help_panel=_MONEY),
    currency: str | None = typer.Option(None, help="A name to print, such as USD or BRL.", rich_help_panel=_MONEY),
    engineering_cost: float | None = typer.Option(
        None, help="One-off cost of switching speculation on.", rich_help_panel=_MONEY
    ),
    tokens_per_month: float | None = typer.Option(None, help="Output tokens served per month.", rich_help_panel=_MONEY),
    output: Path | None = typer.Option(
        None, help="Directory of the run; by default a new one under reports/.", rich_help_panel=_RUN
    ),
    resume: bool = typer.Option(
        False,
        "--resume",
        help="Continue the run in --output; what it holds is not measured again.",
        rich_help_panel=_RUN,
    ),
    config: Path | None = typer.Option(None, help="YAML file with any of these options.", rich_help_panel=_RUN),
    save_config: Path | None = typer.Option(
        None, help="Write the options of this command as YAML and go on.", rich_help_panel=_RUN
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Show the plan and stop.", rich_help_panel=_RUN),
    skip_bad_lines: bool | None = typer.Option(
        None,
        "--skip-bad-lines/--no-skip-bad-lines",
        help="Leave out broken workload lines, and count them.",
        rich_help_panel=_LOAD,
    ),
    allow_lossy: bool | None = typer.Option(
        None,
        "--allow-lossy/--no-allow-lossy",
        help="Measure even if the engine accepts drafts that the target would not.",
        rich_help_panel=_ENGINE,
    ),
    save_events: bool | None = typer.Option(
        None, "--save-events/--no-save-events", help="Keep the raw event streams in the run.", rich_help_panel=_RUN
    ),
    ready_timeout: str | None = typer.Option(
        None, help="Until a launch counts as failed, such as 10m.", rich_help_panel=_RUN
    ),
    request_timeout: str | None = typer.Option(
        None, help="Until a request counts as failed, such as 90s.", rich_help_panel=_RUN
    ),
    strict: bool = typer.Option(
        False, "--strict", help="Exit 3 when any output is DIVERGENT from the baseline's.", rich_help_panel=_RUN
    ),
    json_output: bool = typer.Option(
        False, "--json", help="Print the result as one JSON object (docs/columns.md).", rich_help_panel=_RUN
    ),
    quiet: bool = typer.Option(False, "--quiet", help="No progress.", rich_help_panel=_RUN),
) -> None:
    """Measure speculative decoding against plain decoding, on your prompts, over batch sizes and gammas.

    Starts the engine once per method, gamma and replicate, keeps each batch size in flight in a closed loop, compares
    every output with the baseline's, and writes a report. With --request-rate requests come by the clock instead (an
    open loop): latency is then counted from when each was due, queue included. With --backend attach nothing is
    started: it measures servers that already run, and leaves them running.

    Example: specbench sweep --workload workloads/chat.jsonl --method ngram --gamma 2,4 --batch-size 1,4 --gpu-price 2.5
    """
    options = locals()

    from specbench.cli.options import given
    from specbench.errors import SpecbenchError
    from specbench.store.run import RunStore
    from specbench.sweep.config import SweepConfig
    from specbench.sweep.config_file import load_config
    from specbench.sweep.config_file import save_config as write_config

    if resume and output is None:
        raise SpecbenchError("--resume continues the run in a directory: name it with --output RUN.")
    earlier = RunStore.open(output).manifest["config"] if resume and output and not config else {}
    settings = load_config(config, {**earlier, **given(options, SweepConfig.model_fields)})
    if save_config is not None:
        write_config(settings, save_config)
    if dry_run:
        _print_plan(settings, output, resume=resume, as_json=json_output)
        return
    raise typer.Exit(_run(settings, output, resume=resume, strict=strict, json_output=json_output, quiet=quiet))


def _print_plan(config: SweepConfig, output: Path | None, *, resume: bool, as_json: bool) -> None:
    import json

    from specbench.cli.table import print_table
    from specbench.store.run import RunStore
    from specbench.sweep.plan import make_plan
    from specbench.sweep.preflight import describe_load, describe_starts
    from specbench.sweep.prepare import check
    from specbench.sweep.requests import request_order

    checked = check(config, output, resume=resume)
    stored = RunStore(output).measurements() if resume and output else []
    done = {m.id for m in stored if m.status == "ok"}
    plan = make_plan(config).without(done)
    rows = []
    for launch in _first(config, plan).launches:
        cells = [m.cell for m in launch.measurements]
        orders = (request_order(checked.workloads[cell.workload], config, cell.batch_size) for cell in cells)
        rows.append((launch.id, len(cells), sum(map(len, orders))))
    if as_json:
        launches = [{"launch": name, "measurements": measured, "requests": sent} for name, measured, sent in rows]
        told: dict[str, object] = {"simulated": config.is_simulated, "launches": launches, "done": len(done)}
        if config.stops_early:
            told["worst_case"] = {"launches": len(plan.launches), "measurements": len(plan.measurements)}
        typer.echo(json.dumps(told, indent=2))
        return
    mark = "SIMULATED: " if config.is_simulated else ""
    print_table(f"{mark}Nothing was started (--dry-run)", ("launch", "measurements", "requests"), rows)
    if config.is_attached:
        typer.echo(
            f"{len(plan.measurements)} measurements, taking turns at servers that run already. What they serve and how "
            "they speculate is asked when the sweep begins."
        )
        return
    typer.echo(
        f"{describe_starts(plan, checked.backend.start_seconds)}; {len(plan.measurements)} measurements"
        f"{f' besides the {len(done)} that are done' if done else ''}. Starts are one per method, gamma and replicate; "
        "batch sizes and workloads share them. A measurement sends every prompt once, and at least four requests per "
        f"slot of its batch size; in all {describe_load(plan, checked.workloads, config)}."
        f"{_memories(config)}{_more_replicates(config)}{_fewer_cells(config)}"
    )


def _first(config: SweepConfig, plan: SweepPlan) -> SweepPlan:
    """Of what is left of a plan, the launches that are certain whatever will be seen."""
    if not config.stops_early:
        return plan
    from specbench.planning.from_sweep import start_cells
    from specbench.sweep.plan import make_plan

    return plan.only(0, start_cells(make_plan(config)))


def _fewer_cells(config: SweepConfig) -> str:
    if not config.stops_early:
        return ""
    limit = "" if config.budget is None else f", or {config.budget}{' of that time' * config.budget.endswith('%')}"
    return (
        f" That is the worst case{limit}. The table is what it "
        "begins with; then come the cells that tell most, until the best arm at each batch size is known to "
        f"{config.confidence:.0%}."
    )


def _memories(config: SweepConfig) -> str:
    if not config.remembers:
        return ""
    return (
        " Suffix decoding that remembers is started for each of its measurements, and first answers as many other "
        "prompts as it is to remember."
    )


def _more_replicates(config: SweepConfig) -> str:
    if config.until_ci is None:
        return ""
    from specbench.sweep.plan import make_plan

    starts = len(make_plan(config).launches) // config.replicates
    return (
        f" Then one replicate at a time (--until-ci {config.until_ci:.1%}), up to {config.max_replicates} in all: "
        f"{(config.max_replicates - config.replicates) * starts} more starts at most."
    )


def _run(
    config: SweepConfig, output: Path | None, *, resume: bool, strict: bool, json_output: bool, quiet: bool
) -> int:
    import asyncio
    import json

    from specbench.cli.progress import make_progress
    from specbench.sweep.prepare import prepare

    progress = make_progress(quiet=quiet)
    prepared = prepare(config, output, resume=resume, note=progress.note)
    # Seconds of imports, for which a refusal need not wait.
    from specbench.analysis.summary import summarize
    from specbench.history.summary_file import keep
    from specbench.report.terminal import print_summary
    from specbench.report.write import write_report

    with prepared.store.locked(), progress:
        try:
            asyncio.run(_measure(prepared, progress))
        except (KeyboardInterrupt, asyncio.CancelledError):  # Ctrl-C; SIGTERM, SIGHUP
            where = prepared.store.path
            typer.echo(f"specbench: stopped. Go on with: specbench sweep --resume --output {where}", err=True)
            return 130
    measurements = prepared.store.measurements()
    summary = summarize(prepared.store, measurements)
    paths = write_report(summary, measurements, prepared.store.path)
    keep(prepared.store, summary, len(measurements))
    if json_output:
        typer.echo(json.dumps(summary.to_json(), indent=2, allow_nan=False))
    else:
        print_summary(summary)
        typer.echo(f"Report: {paths.html}")
    if strict and any(cell.equivalence == "DIVERGENT" for cell in summary.cells):
        return 3
    return 5 if summary.failures else 0


async def _measure(prepared: Sweep, progress: Any) -> None:
    from specbench.analysis.precision import half_widths
    from specbench.cli.interrupt import end_as_with_ctrl_c
    from specbench.sweep.early import run_until_confident
    from specbench.sweep.margins import probe_margins
    from specbench.sweep.until import run_until_known

    end_as_with_ctrl_c()
    if prepared.config.stops_early:
        from specbench.planning.from_sweep import chooser

        await run_until_confident(prepared, progress, chooser(prepared))
    else:
        await run_until_known(prepared, progress, half_widths)
    await probe_margins(prepared, progress)
    prepared.store.compact()
