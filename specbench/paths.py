"""Paths as people write them: `~` is a home directory."""

from __future__ import annotations

from pathlib import Path

from specbench.errors import SpecbenchError


def expand_home(path: str | Path) -> Path:
    """The path with `~` or `~name` at its beginning replaced. Raises SpecbenchError where no such home is known."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise SpecbenchError(
            f"{path}: there is no home directory {Path(path).parts[0]} here. Write the whole path, from / on."
        ) from None
