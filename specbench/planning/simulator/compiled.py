"""Machine code where numba is installed; where it is not, the same functions in Python, some hundred times slower."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from specbench.cache import cache_dir
from specbench.decoder import policies

_Function = TypeVar("_Function", bound=Callable[..., Any])

try:
    import numba
except ImportError:
    FAST = False

    def compiled(function: _Function) -> _Function:
        return function

    def entry(function: _Function) -> _Function:
        return function

else:
    FAST = True

    def compiled(function: _Function) -> _Function:
        """Becomes a part of what calls it: tuples of arrays are dear to hand over, a million times a second."""
        return _made(function, inline=True)

    def entry(function: _Function) -> _Function:
        """Stays a function: what Python calls, and what is rare."""
        return _made(function, inline=False)

    def _made(function: _Function, inline: bool) -> _Function:
        """Kept in the cache directory, so that it is compiled once and not in every process."""
        before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(_place())
        try:
            made: _Function = numba.njit(cache=True, error_model="numpy", forceinline=inline)(function)
        finally:
            numba.config.CACHE_DIR = before
        return made


@cache
def _place() -> Path:
    """One for each state of the sources: machine code holds that of the functions it calls, and numba looks at the
    file of the caller alone.
    """
    folders = (Path(__file__).parent, Path(policies.__file__).parent)
    digest = hashlib.sha256()
    for source in (file for folder in folders for file in sorted(folder.glob("*.py"))):
        digest.update(source.read_bytes())
    return cache_dir() / "simulator" / digest.hexdigest()[:16]
