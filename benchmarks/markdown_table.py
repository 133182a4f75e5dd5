"""What the tables of README and docs have in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
METHODS = {"ngram": "n-gram", "draft_model": "draft model", "eagle3": "EAGLE-3", "eagle": "EAGLE-1", "medusa": "Medusa",
           "mtp": "MTP", "layer_skip": "layer skipping", "ssd": "SSD"}  # fmt: skip


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))
