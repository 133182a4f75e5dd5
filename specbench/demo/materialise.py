"""Drafters are kept small in the package and made whole in the user's cache, once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from specbench.demo.target import demo_target_path
from specbench.digest import file_sha256
from specbench.errors import SpecbenchError

TOKEN_IDS = "token_ids"
"""The tensor in a drafter's file that is no weight: [V_d] int32, which of the target's tokens it can say."""


def place(weights: Path, name: str) -> Path:
    """Where the directory `name` made of the package's file `weights` is, or will be: beside the target it belongs to.

    Other weights, and another revision of the target, have another place.
    """
    return demo_target_path().parent / f"{weights.stem}-{file_sha256(weights)[:12]}" / name


def materialise(weights: Path, name: str, build: Callable[[Path], None]) -> Path:
    """The directory at `place`; the first call lets `build` fill it. Two processes may make it at once.

    Raises SpecbenchError where the cache cannot be written.
    """
    directory = place(weights, name)
    if directory.is_dir():
        return directory
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="building-", dir=directory.parent) as folder:
            built = Path(folder, name)
            built.mkdir()
            build(built)
            try:
                built.replace(directory)
            except OSError:  # the other process was quicker, and its directory is the same
                if not directory.is_dir():
                    raise
    except OSError as error:
        raise SpecbenchError(
            f"cannot write the demo drafter to {directory.parent} ({error.strerror}). "
            "Free some space, or choose another cache with SPECBENCH_CACHE."
        ) from error
    return directory
