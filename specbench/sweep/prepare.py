"""From a configuration to a sweep that can start: files read, models found, everything checked before any launch."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from specbench.backends import UNTRIED, get_backend
from specbench.backends.base import Backend, EngineOptions, check_adaptive
from specbench.backends.lossy import lossy_command, lossy_variables
from specbench.backends.servers import check_registry
from specbench.demo import demo_target_path
from specbench.drafter import check_drafter_name, demo_drafter_path, resolve_drafter
from specbench.errors import SpecbenchError
from specbench.model_config import model_config
from specbench.store.run import MANIFEST, RunStore
from specbench.sweep.attaching import attach
from specbench.sweep.config import SweepConfig
from specbench.sweep.config_file import save_config
from specbench.sweep.launch import check_options, locate_engine, make_launch, refuse_lossy
from specbench.sweep.manifest import check_same_config, check_same_identity, make_manifest
from specbench.sweep.plan import make_plan
from specbench.sweep.preflight import check_fit, describe_load, describe_starts
from specbench.sweep.requests import memory_requests
from specbench.sweep.runner import Sweep
from specbench.target import local_model, resolve_target
from specbench.workloads.arrival_trace import read_arrival_trace
from specbench.workloads.load import load_workload
from specbench.workloads.prompt import Workload


@dataclass(frozen=True, slots=True)
class Checked:
    """What is known of a sweep before anything is fetched, written or started."""

    backend: Backend
    options: EngineOptions
    workloads: Mapping[str, Workload]


def check(config: SweepConfig, output: Path | None, *, resume: bool) -> Checked:
    """Raises SpecbenchError for what would fail later and can be known without touching network or disk."""
    backend = get_backend(config.backend)
    options = check_options(config, backend)
    workloads = load_workloads(config)
    for workload in workloads.values():
        memory_requests(workload, config, max(config.suffix_cached_requests))
    if (trace := config.arrivals().trace) is not None:
        read_arrival_trace(trace)
    if not config.is_attached:
        _check_commands(config, backend, options)
    if resume and output is not None:
        if not config.is_attached:  # what its servers are is part of it, and still to be asked
            check_same_config(RunStore.open(output).manifest, config, output)
    elif output is not None:
        RunStore.refuse_if_taken(output)
    return Checked(backend, options, workloads)


def _check_commands(config: SweepConfig, backend: Backend, options: EngineOptions) -> None:
    """Raises SpecbenchError for an arm that the engine cannot run, or whose outputs are not the target's own."""
    target, drafters = _named_models(config) if config.is_simulated else _known_models(config)
    _check_draft_models(config.backend, target, drafters)
    # Where the engine is does not matter to what it is told.
    somewhere = options if options.python or options.container else replace(options, python=Path("python"))
    lossy = [] if options.container else list(lossy_variables(os.environ))  # which the server inherits
    for speculation in config.speculations():
        backend.check(speculation)
        check_adaptive(backend, speculation)
        command = backend.command(make_launch(config, speculation, target, drafters, somewhere))
        lossy += lossy_command(command, config.temperature)
    refuse_lossy(lossy, config)


def prepare(config: SweepConfig, output: Path | None, *, resume: bool, note: Callable[[str], None]) -> Sweep:
    """Resolve and check everything, then create the run's directory (or open it, to resume).

    Raises SpecbenchError for anything that would make the sweep fail later and can be known now.
    """
    checked = check(config, output, resume=resume)
    backend, workloads = checked.backend, checked.workloads
    check_registry()
    options = locate_engine(checked.options, backend, config.device)
    servers: Mapping[str, Any] | None = None
    if config.is_attached:
        found = attach(config, workloads, os.environ, note)
        config, backend, servers = found.config, found.backend, found.made_with
        target, drafters = _named_models(config)
    elif config.is_simulated:
        note(f"SIMULATED: no engine runs, acceptance and step times come from {config.scenario}.")
        target, drafters = _named_models(config)
    else:
        target = resolve_target(config.target, note)
        drafters = {method: resolve_drafter(method, name, note) for method, name in config.drafter.items()}
        _check_draft_models(config.backend, target, drafters)
        check_fit(config, options, target, drafters.values(), note)
        if config.backend in UNTRIED:
            note(f"The adapter of {config.backend} is {UNTRIED[config.backend]}: see what it starts (backend command).")
    plan = make_plan(config)
    if config.is_attached:
        note("Nothing is started, and nothing stopped.")
    else:
        most = "At most " if config.stops_early else ""
        note(f"{most}{describe_starts(plan, backend.start_seconds)}, and {describe_load(plan, workloads, config)}.")
    path = output or _default_output(config)
    manifest = make_manifest(config, plan, target, drafters, list(workloads.values()), path.name, servers)
    sweep = Sweep(config, plan, backend, target, drafters, workloads, RunStore(path), options)
    with sweep.store.locked():
        if resume:
            earlier = RunStore.open(path).manifest
            check_same_identity(earlier, manifest, path)
            # What a continued run may change (prices, more replicates) holds from now on; that it stopped by what it
            # saw stays true of it.
            looked = earlier["config"].get("until_ci")
            kept = {**manifest["config"], "until_ci": manifest["config"]["until_ci"] or looked}
            sweep.store.write_json(MANIFEST, {**earlier, "config": kept, "plan": manifest["plan"]})
        else:
            RunStore.create(path, manifest)
        save_config(config, path / "config.yaml")
    note(f"The run is in {path}.")
    return sweep


def _named_models(config: SweepConfig) -> tuple[Path, dict[str, Path]]:
    """Target and drafters by their names alone: a simulation loads none."""
    return Path(config.target), {method: Path(name) for method, name in config.drafter.items()}


def _known_models(config: SweepConfig) -> tuple[Path, dict[str, Path]]:
    """Where target and drafters are, or their names where they are still to be fetched."""
    target = demo_target_path() if config.target == "demo" else local_model(config.target) or Path(config.target)
    drafters = {}
    for method, name in config.drafter.items():
        check_drafter_name(method, name)
        drafters[method] = demo_drafter_path(method, name) or local_model(name) or Path(name)
    return target, drafters


def load_workloads(config: SweepConfig) -> dict[str, Workload]:
    """The configured workloads by name (the file's stem)."""
    workloads: dict[str, Workload] = {}
    for path in config.workload:
        if path.stem in workloads:
            raise SpecbenchError(f"two workloads are called {path.stem!r}: rename one of the files.")
        workloads[path.stem] = load_workload(path, config.skip_bad_lines, config.format)
    return workloads


def _check_draft_models(backend: str, target: Path, drafters: Mapping[str, Path]) -> None:
    """Those that are here already: others are fetched first."""
    for method in ("draft_model", "ssd"):
        if method in drafters and drafters[method].is_dir() and target.is_dir():
            _check_draft_model(backend, method, target, drafters[method])


def _check_draft_model(backend: str, method: str, target: Path, draft: Path) -> None:
    """A draft model proposes token ids, so both models must mean the same by them, or the engine translate."""
    target_config, draft_config = (model_config(path) for path in (target, draft))
    # Multimodal models nest their vocabulary's size: then it is for the engine to compare.
    sizes = [config.get("vocab_size") for config in (target_config, draft_config)]
    by_text = (
        backend == "reference"
        and method == "draft_model"
        and all((path / "tokenizer.json").exists() for path in (target, draft))
    )
    if None not in sizes and sizes[0] != sizes[1] and not by_text:
        raise SpecbenchError(
            f"the draft model {draft} has a vocabulary of {sizes[1]} tokens, the target one of {sizes[0]}. "
            "Use a draft model with the target's tokenizer. (As draft_model the reference decoder takes another if "
            "both have a tokenizer.json.)"
        )
    if "draft_vocab_size" in draft_config and backend != "reference":
        raise SpecbenchError(
            f"the draft model {draft} has a head for {draft_config['draft_vocab_size']} tokens, which only the "
            f"reference decoder loads. With --backend {backend} use one with a whole head, such as draft_model=demo."
        )


def _default_output(config: SweepConfig) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return Path("reports") / f"{stamp}-{config.backend}-{'+'.join(path.stem for path in config.workload)}"
