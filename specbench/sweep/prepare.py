"""From a configuration to a sweep that can start: files read, models found, everything checked before any launch."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from specbench.backends import get_backend
from specbench.drafter import resolve_drafter
from specbench.errors import SpecbenchError
from specbench.store.run import MANIFEST, RunStore
from specbench.sweep.config import SweepConfig, save_config
from specbench.sweep.launch import check_options, locate_engine
from specbench.sweep.manifest import check_same_identity, make_manifest
from specbench.sweep.plan import make_plan
from specbench.sweep.preflight import check_memory, describe_starts
from specbench.sweep.runner import Sweep
from specbench.target import resolve_target
from specbench.workloads.load import load_workload
from specbench.workloads.prompt import Workload


def prepare(config: SweepConfig, output: Path | None, *, resume: bool, note: Callable[[str], None]) -> Sweep:
    """Resolve and check everything, then create the run's directory (or open it, to resume).

    Raises SpecbenchError for anything that would make the sweep fail later and can be known now.
    """
    backend = get_backend(config.backend)
    for speculation in config.speculations():
        backend.check(speculation)
    options = locate_engine(check_options(config, backend), backend, config.device)
    workloads = load_workloads(config)
    target = resolve_target(config.target, note)
    drafters = {method: resolve_drafter(method, name, note) for method, name in config.drafter.items()}
    if "draft_model" in drafters:
        _check_draft_model(config.backend, target, drafters["draft_model"])
    check_memory(config, options, target, drafters.values(), note)
    plan = make_plan(config)
    note(f"{describe_starts(plan, backend.start_seconds)}, until they are measured.")
    path = output or _default_output(config)
    manifest = make_manifest(config, plan, target, drafters, list(workloads.values()), path.name)
    sweep = Sweep(config, plan, backend, target, drafters, workloads, RunStore(path), options)
    for speculation in config.speculations():
        sweep.command(speculation)
    if resume:
        earlier = RunStore.open(path).manifest
        check_same_identity(earlier, manifest, path)
        # What a continued run may change (prices, more replicates) holds from now on.
        sweep.store.write_json(MANIFEST, {**earlier, "config": manifest["config"], "plan": manifest["plan"]})
    else:
        RunStore.create(path, manifest)
    save_config(config, path / "config.yaml")
    note(f"The run is in {path}.")
    return sweep


def load_workloads(config: SweepConfig) -> dict[str, Workload]:
    """The configured workloads by name (the file's stem)."""
    workloads: dict[str, Workload] = {}
    for path in config.workload:
        if path.stem in workloads:
            raise SpecbenchError(f"two workloads are called {path.stem!r}: rename one of the files.")
        workloads[path.stem] = load_workload(path, skip_bad_lines=config.skip_bad_lines)
    return workloads


def _check_draft_model(backend: str, target: Path, draft: Path) -> None:
    """A draft model proposes token ids, so both models must mean the same by them."""
    target_config, draft_config = (_model_config(path) for path in (target, draft))
    # Multimodal models nest their vocabulary's size: then it is for the engine to compare.
    sizes = [config.get("vocab_size") for config in (target_config, draft_config)]
    if None not in sizes and sizes[0] != sizes[1]:
        raise SpecbenchError(
            f"the draft model {draft} has a vocabulary of {sizes[1]} tokens, the target one of {sizes[0]}. "
            "Use a draft model with the target's tokenizer."
        )
    if "draft_vocab_size" in draft_config and backend != "reference":
        raise SpecbenchError(
            f"the draft model {draft} has a head for {draft_config['draft_vocab_size']} tokens, which only the "
            f"reference decoder loads. With --backend {backend} use one with a whole head, such as draft_model=demo."
        )


def _model_config(model: Path) -> dict[str, Any]:
    try:
        config = json.loads((model / "config.json").read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("no JSON object")
    except (OSError, ValueError) as error:
        raise SpecbenchError(f"{model / 'config.json'}: not a model's configuration ({error}).") from error
    return config


def _default_output(config: SweepConfig) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return Path("reports") / f"{stamp}-{config.backend}-{'+'.join(path.stem for path in config.workload)}"
