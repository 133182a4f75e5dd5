"""The result as text: checks, then a table per model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

KIND = "specbench gpu-check"
"""What `kind` is in a result."""


def read(path: Path) -> dict[str, Any]:
    """A result that was written. Raises ValueError, in a sentence, for a file of something else."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}).") from None
    if not isinstance(result, dict) or result.get("kind") != KIND:
        raise ValueError(f"{path} is not a result of gpu-check.")
    return result


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """result: what `gpu_check` wrote."""
    machine, versions = result["machine"], result["machine"]["versions"]
    known = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    yield f"{machine['device']}: {known}"
    if result["tiny"]:
        yield "TINY MODELS: that the script runs is what this shows. Its times mean nothing."
    if not result.get("complete", True):
        yield "INCOMPLETE: this is what there was when the script was ended."
    yield f"copy bandwidth {result['copy_bytes_per_s'] / 1e9:,.0f} GB/s; {result['seconds']:.0f} s in all"
    yield ""
    for check in result["checks"]:
        word = {True: "ok", False: "WRONG", None: "-"}[check["ok"]]
        yield f"{word:6}{check['name']}: {check['detail']}"
    if not result["kernels"]:
        yield "      no kernels to check"
    for model in dict.fromkeys(figure["model"] for figure in result["figures"]):
        yield ""
        yield model
        yield from _table([figure for figure in result["figures"] if figure["model"] == model])
    for failure in result["failures"]:
        yield f"FAILED {failure['what']}: {failure['error']}"


def _table(figures: list[dict[str, Any]]) -> Iterator[str]:
    """A line per figure and gamma, a column per batch size."""
    batch_sizes = sorted({figure["batch_size"] for figure in figures})
    yield " " * 58 + "".join(f"{f'batch {b}':>16}" for b in batch_sizes)
    rows: dict[str, dict[int, str]] = {}
    for f in figures:
        gamma = f", gamma {f['gamma']}" if f["gamma"] else ""
        synthetic = "" if f["synthetic"] is None else f", synthetic acceptance {f['synthetic']:g}"
        share = "" if f["of_bandwidth"] is None else f" ({f['of_bandwidth']:.0%})"
        name = f"{f['what']}{gamma}{synthetic}, {f['unit']}"
        rows.setdefault(name, {})[f["batch_size"]] = f"{f['value']:,.4g}{share}"
    for name, values in rows.items():
        yield f"{name:58}" + "".join(f"{values.get(b, ''):>16}" for b in batch_sizes)
