"""What a run's summary was made from, as a short digest: another digest means that it has to be made anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SUMMARIZING = (
    "acceptance.py",
    "access.py",
    "analysis",
    "backends/base.py",
    "comparison/fingerprint.py",
    "decoder/policies",
    "decoder/tree_shape.py",
    "equivalence",
    "hardware",
    "history",
    "quantities.py",
    "replay",
    "schedule.py",
    "speculation.py",
    "store",
    "sweep",
    "telemetry/sample.py",
    "telemetry/throttle.py",
    "yaml_file.py",
)
"""Code and data, under the package, that the figures of a summary depend on."""

PREFIX = "summary-"

_READ = ("manifest.json", "measurements.parquet", "requests.parquet", "equivalence.json", "early_stop.json")


def summary_path(run: Path) -> Path:
    """Where the summary of a run as it stands is, or would be. Raises FileNotFoundError where there is no run."""
    return run / f"{PREFIX}{_stamp(run)}.parquet"


def _stamp(run: Path) -> str:
    """Over names, sizes and times of change of what analysis reads, and over its code."""
    digest = hashlib.sha256(_code())
    for path in _inputs(run):
        status = path.stat()
        digest.update(f"{path.relative_to(run)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _inputs(run: Path) -> Iterator[Path]:
    if not (run / "manifest.json").exists():
        yield run / "report.json"
        return
    yield from (path for name in _READ if (path := run / name).exists())
    yield from sorted((run / "launches").glob("*.json"))
    yield from sorted((run / "cells").glob("*.parquet"))


@cache
def _code() -> bytes:
    """By content, not by version: a checkout can change under an unchanged version number."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for place in map(package.joinpath, SUMMARIZING):
        files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.suffix in (".py", ".yaml"))
        for path in files:
            digest.update(f"{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.digest()
