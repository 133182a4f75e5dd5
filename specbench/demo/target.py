"""`--target demo`: SmolLM2-135M-Instruct, real weights, fetched and converted once into the user's cache."""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock, Timeout

from specbench.cache import cache_dir
from specbench.demo.fetch import fetch_gguf
from specbench.errors import SpecbenchError

logger = logging.getLogger(__name__)

NAME = "SmolLM2-135M-Instruct"
REVISION = 1
"""Goes up when convert.py, or what writes the demo drafters, writes other files, so that an older cache is not used."""


def demo_target_path() -> Path:
    """Where the demo target is, or will be. It appears there whole, so a directory that exists can be used."""
    return cache_dir() / "demo" / f"r{REVISION}" / NAME


def demo_target(progress: Callable[[str], None] = logger.info) -> Path:
    """The demo target's Hugging Face directory; the first call makes it (93 MB from pip, 280 MB on disk).

    Later calls touch no network. Processes that call at the same time wait for the one that builds.
    progress: gets a sentence before each long step
    Raises SpecbenchError when the fetch fails, the disk is full, the cache cannot be written or an extra is missing.
    """
    target = demo_target_path()
    if target.is_dir():
        return target
    _need_extras()
    with _file_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent / ".lock", progress):
            if not target.is_dir():
                _build(target, progress)
    return target


def _build(target: Path, progress: Callable[[str], None]) -> None:
    from specbench.demo.convert import convert

    for abandoned in target.parent.glob("building-*"):
        shutil.rmtree(abandoned)
    with TemporaryDirectory(prefix="building-", dir=target.parent) as folder:
        progress(f"Fetching the demo target, {NAME} (93 MB, once).")
        gguf = fetch_gguf(Path(folder))
        progress(f"Converting {NAME} to bfloat16 safetensors.")
        built = Path(folder, NAME)
        built.mkdir()
        convert(gguf, built)
        built.replace(target)
    progress(f"The demo target is ready: {target}.")


def _need_extras() -> None:
    missing = [name for name in ("torch", "gguf", "safetensors", "tokenizers") if find_spec(name) is None]
    if missing:
        raise SpecbenchError(
            f"the demo target needs the reference extra ({', '.join(missing)} not installed): "
            "run `pip install '.[reference]'` in specbench's checkout."
        )


@contextmanager
def _alone(lock_file: Path, progress: Callable[[str], None]) -> Iterator[None]:
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("Another process is making the demo target; waiting for it.")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _file_errors(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise SpecbenchError(
                f"no space left in {folder}: the demo target needs about 600 MB while it is made and 280 MB after. "
                "Free some space, or set SPECBENCH_CACHE to a folder on another disk."
            ) from error
        raise SpecbenchError(
            f"cannot write the demo target to {folder} ({error.strerror}). "
            "Set SPECBENCH_CACHE to a folder that you can write to."
        ) from error
