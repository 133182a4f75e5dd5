"""Where specbench keeps what it can make again: the demo target, digests, records of launched servers."""

from __future__ import annotations

import os
from pathlib import Path

from specbench.paths import expand_home


def cache_dir() -> Path:
    """`$SPECBENCH_CACHE`, else `$XDG_CACHE_HOME/specbench`, else `~/.cache/specbench`; absolute, not created here."""
    if chosen := os.environ.get("SPECBENCH_CACHE"):
        return expand_home(chosen).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return expand_home(base).absolute() / "specbench"
