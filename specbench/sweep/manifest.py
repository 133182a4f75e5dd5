"""What a run was made with: everything that could change its result, and a fingerprint of that."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

from specbench import __version__
from specbench.access import is_secret_name
from specbench.backends.launch_checks import device_number
from specbench.digest import directory_digest, tokenizer_digests
from specbench.errors import SpecbenchError
from specbench.paths import expand_home
from specbench.simulated.scenario import load_scenario
from specbench.sweep.config import CONTINUABLE, SweepConfig
from specbench.sweep.plan import SweepPlan
from specbench.sweep.preflight import weight_bytes_per_pass
from specbench.telemetry.inventory import Gpu, list_gpus
from specbench.workloads.prompt import Workload

_VERSIONED = ("torch", "transformers", "tokenizers", "numpy", "aiohttp")
_MEASURING = ("backends", "decoder", "replay", "simulated", "sweep", "telemetry", "wire")
"""Packages whose code a measurement depends on."""

_ENGINE_VARIABLES = re.compile(r"^(CUDA|NVIDIA|OMP|GOMP|KMP|MKL|OPENBLAS|TORCH|PYTORCH|VLLM|SGLANG|TRTLLM|TLLM|NCCL)_")


def make_manifest(
    config: SweepConfig,
    plan: SweepPlan,
    target: Path,
    drafters: Mapping[str, Path],
    workloads: Sequence[Workload],
    run_id: str,
    attached: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The manifest of a new run. `fingerprint` covers all that could change a measurement, prices not among it.

    attached: what servers that already run are made of, in the place of what would be started here
    """
    identity: dict[str, Any] = {
        "config": {k: v for k, v in _as_json(config).items() if k not in CONTINUABLE},
        "versions": _versions() if config.backend == "reference" else {"specbench": __version__},
        "code": _code_digest(),
        "environment": _environment() if attached is None else {},
        **(attached or (_simulated(config, drafters) if config.is_simulated else _real(config, target, drafters))),
        "workloads": [
            {"name": w.name, "sha256": w.sha256, "prompts": len(w.prompts), "skipped": len(w.skipped)}
            for w in workloads
        ],
        "arrivals": _arrivals(config),
    }
    return {
        "run": run_id,
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "specbench_version": __version__,
        **identity,
        "versions": _versions(),
        "clocks": _clocks(),
        "weight_bytes_per_pass": None if attached else weight_bytes_per_pass(target, config.dtype, config.quantization),
        "config": _as_json(config),
        "git": _git_state(),
        "plan": {"launches": len(plan.launches), "measurements": len(plan.measurements)},
        "identity": identity,
        "fingerprint": hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest(),
    }


def _real(config: SweepConfig, target: Path, drafters: Mapping[str, Path]) -> dict[str, Any]:
    return {
        "hardware": describe_hardware(config.device, config.tensor_parallel),
        "target": {
            "name": config.target,
            "revision": _hub_revision(target),
            "digest": directory_digest(target),
            **tokenizer_digests(target),
        },
        "drafters": {method: directory_digest(path) for method, path in drafters.items()},
    }


def _simulated(config: SweepConfig, drafters: Mapping[str, Path]) -> dict[str, Any]:
    """What a run on no hardware was made with. From here, reports, plots and tables know that it is simulated."""
    assert config.scenario is not None  # the backend has refused a launch without
    path = expand_home(config.scenario)
    scenario = load_scenario(path)
    what = f"scenario {scenario.name}{f': {scenario.description}' if scenario.description else ''}"
    return {
        "hardware": {"kind": f"SIMULATED hardware ({what})"},
        "simulated": {"scenario": scenario.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()},
        "target": {"name": config.target},
        "drafters": {method: str(name) for method, name in drafters.items()},
    }


def check_same_identity(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> None:
    """Refuse to continue a run with anything that could change its results."""
    if old["fingerprint"] == new["fingerprint"]:
        return
    raise _other_run(path, _differences(old["identity"], new["identity"]))


def check_same_config(old: Mapping[str, Any], config: SweepConfig, path: Path) -> None:
    """The part of `check_same_identity` that needs neither models nor files."""
    before, now = (
        {k: v for k, v in values.items() if k not in CONTINUABLE} for values in (old["config"], _as_json(config))
    )
    if changed := _differences(before, now, "config"):
        raise _other_run(path, changed)


def _other_run(path: Path, changed: Sequence[str]) -> SpecbenchError:
    return SpecbenchError(
        f"{path} was made with something else, and cells of both must not be mixed. Changed: {', '.join(changed)}. "
        "Undo the change, or start a new run with another --output."
    )


def _as_json(config: SweepConfig) -> dict[str, Any]:
    return config.model_dump(mode="json")


def _differences(old: Any, new: Any, name: str = "") -> list[str]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        keys = dict.fromkeys([*old, *new])
        return [d for k in keys for d in _differences(old.get(k), new.get(k), f"{name}.{k}" if name else str(k))]
    return [] if old == new else [f"{name} ({old!r} → {new!r})"]


def _versions() -> dict[str, str | None]:
    return {"specbench": __version__, "python": platform.python_version(), **{n: _version(n) for n in _VERSIONED}}


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def describe_hardware(device: str | None = None, count: int = 1) -> dict[str, Any]:
    """The machine, without anything that changes between two runs on it. `kind` is one line for captions.

    device, count: what is used of it, so that the rest of its GPUs is left out; None where that is not known
    """
    cpu, cores, memory = _cpu_name(), len(os.sched_getaffinity(0)), psutil.virtual_memory().total
    gpus = [] if device == "cpu" else list_gpus()
    if device is not None and (visible := _visible(gpus)) is not None:
        first = device_number(device) or 0
        gpus = visible[first : first + count]
    cpu_kind = f"{cores}-core CPU ({cpu}), {memory / 2**30:.0f} GiB"
    names = Counter(gpu.name for gpu in gpus)
    gpu_kind = " + ".join(f"{number} × {name}" for name, number in names.items())
    return {
        "kind": f"{gpu_kind}, {cpu_kind}" if gpus else f"{cpu_kind}, no GPU",
        "cpu": cpu,
        "cores": cores,
        "memory_gib": round(memory / 2**30),
        "gpus": [asdict(gpu) for gpu in gpus],
        "os": f"{platform.system()} {platform.release()}",
    }


def _visible(gpus: Sequence[Gpu]) -> list[Gpu] | None:
    """In the order of CUDA_VISIBLE_DEVICES; all, where that is not set; None where it goes by UUIDs."""
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    by_index = {str(gpu.index): gpu for gpu in gpus}
    if not all(name.isdecimal() for name in named):
        return None
    return [by_index[name] for name in named if name in by_index] or list(gpus)


def _code_digest() -> str:
    """SHA-256 over the code that measures: a checkout can change under an unchanged version number."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(p for name in _MEASURING for p in (package / name).rglob("*.py")):
        digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _arrivals(config: SweepConfig) -> dict[str, str] | None:
    """The trace of arrivals that the run replays, by content."""
    trace = config.arrivals().trace
    return {"sha256": hashlib.sha256(trace.read_bytes()).hexdigest()} if trace else None


def _environment() -> dict[str, str]:
    """Variables that engines listen to; never a secret."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if _ENGINE_VARIABLES.match(name) and not is_secret_name(name)
    }


def _clocks() -> dict[str, float | None]:
    """MHz at the start; GPU clocks are sampled throughout."""
    frequency = psutil.cpu_freq()
    return {"cpu_mhz": frequency.current if frequency else None}


def _hub_revision(directory: Path) -> str | None:
    """The commit of a model from the hub, which its cache names the directory after."""
    return directory.name if directory.parent.name == "snapshots" else None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def _git_state() -> dict[str, Any] | None:
    """Commit and cleanliness of the checkout that specbench runs from; None when it is installed without one."""
    here = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=here, capture_output=True, text=True, check=True, timeout=10
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "dirty": bool(status.strip())}
