"""From a configuration to a sweep that can start: files read, models found, everything checked before any launch."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

from specbench.backends import get_backend
from specbench.errors import SpecbenchError
from specbench.store.run import RunStore
from specbench.sweep.config import SweepConfig, save_config
from specbench.sweep.manifest import check_same_identity, make_manifest
from specbench.sweep.plan import make_plan
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
    workloads = load_workloads(config)
    target = resolve_target(config.target, note)
    drafters = {method: resolve_target(name, note) for method, name in config.drafter.items()}
    if "draft_model" in drafters:
        _check_same_vocabulary(target, drafters["draft_model"])
    plan = make_plan(config)
    path = output or _default_output(config)
    manifest = make_manifest(config, plan, target, drafters, list(workloads.values()), path.name)
    if resume:
        store = RunStore.open(path)
        check_same_identity(store.manifest, manifest, path)
    else:
        store = RunStore.create(path, manifest)
        save_config(config, path / "config.yaml")
    return Sweep(config, plan, backend, target, drafters, workloads, store)


def load_workloads(config: SweepConfig) -> dict[str, Workload]:
    """The configured workloads by name (the file's stem)."""
    workloads: dict[str, Workload] = {}
    for path in config.workload:
        if path.stem in workloads:
            raise SpecbenchError(f"two workloads are called {path.stem!r}: rename one of the files.")
        workloads[path.stem] = load_workload(path, skip_bad_lines=config.skip_bad_lines)
    return workloads


def _check_same_vocabulary(target: Path, draft: Path) -> None:
    """A draft model proposes token ids, so both models must mean the same by them."""
    sizes = [json.loads((path / "config.json").read_text())["vocab_size"] for path in (target, draft)]
    if sizes[0] != sizes[1]:
        raise SpecbenchError(
            f"the draft model {draft} has a vocabulary of {sizes[1]} tokens, the target one of {sizes[0]}. "
            "Use a draft model with the target's tokenizer."
        )


def _default_output(config: SweepConfig) -> Path:
    stamp = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return Path("reports") / f"{stamp}-{config.backend}-{'+'.join(path.stem for path in config.workload)}"
