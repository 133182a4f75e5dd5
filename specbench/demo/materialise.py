"""Drafters are kept small in the package and made whole in the user's cache, once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from specbench.cache import cache_dir
from specbench.digest import file_sha256
from specbench.errors import SpecbenchError

TOKEN_IDS = "token_ids"
"""The tensor in a drafter's file that is no weight: [V_d] int32, which of the target's tokens it can say."""


def materialise(weights: Path, name: str, build: Callable[[Path], None]) -> Path:
    """The directory `name` made of the package's file `weights`; the first call lets `build` fill it.

    Two processes may make it at once: the first one wins, and the other's is the same. Changed weights make a new one.
    Raises SpecbenchError where the cache cannot be written.
    """
    directory = cache_dir() / "demo" / f"{weights.stem}-{file_sha256(weights)[:12]}" / name
    if directory.is_dir():
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="building-", dir=directory.parent) as folder:
            built = Path(folder, name)
            built.mkdir()
            build(built)
            _put(built, directory)
    except OSError as error:
        raise SpecbenchError(
            f"cannot write the demo drafter to {directory.parent} ({error.strerror}). "
            "Free some space, or choose another cache with SPECBENCH_CACHE."
        ) from error
    return directory


def _put(built: Path, directory: Path) -> None:
    try:
        built.replace(directory)
    except OSError:
        if not directory.is_dir():
            raise
        shutil.rmtree(built)
