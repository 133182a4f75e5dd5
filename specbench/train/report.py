"""What a training says of itself: on what the drafter learned, on what it was judged, and how it did."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from specbench.store.atomic import replacing
from specbench.train.acceptance import Acceptance


@dataclass(frozen=True, slots=True)
class PromptSet:
    """name: of the file or the set · sha256: of the file, None for a set that has none · prompts: in it"""

    name: str
    sha256: str | None
    prompts: int


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """trained_on, evaluated_on: which prompts were which; no prompt is in both
    records, answer_tokens, epochs: of the training · coverage: share of held-out answer tokens that the drafter can say
    held_out: conditional acceptance of each draft step on the target's recorded answers that were held out
    acceptance: of greedy drafts by the reference decoder, per evaluated set, at `gamma`
    """

    method: str
    target: str
    machine: str
    trained_on: tuple[PromptSet, ...]
    evaluated_on: tuple[PromptSet, ...]
    records: int
    answer_tokens: int
    epochs: int
    draft_vocab_size: int
    coverage: float
    held_out: tuple[float, ...]
    gamma: int
    acceptance: Mapping[str, Acceptance]

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "acceptance": {name: acceptance_row(a) for name, a in self.acceptance.items()}}

    def write(self, path: Path) -> None:
        with replacing(path) as partial:
            partial.write_text(json.dumps(self.as_dict(), indent=2) + "\n", "utf-8")


def acceptance_row(measured: Acceptance) -> dict[str, Any]:
    """As a report holds it."""
    counts = measured.counts
    positions = counts.position_acceptance()
    return {
        "prompts": measured.prompts,
        "loops_left_out": measured.loops,
        "steps": counts.steps,
        "mean_acceptance_length": _rounded(counts.mean_length()),
        "draft_acceptance_rate": _rounded(counts.draft_rate()),
        "position_acceptance": None if positions is None else [round(p, 4) for p in positions],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def table(rows: Mapping[str, Mapping[str, Any]]) -> list[Sequence[object]]:
    """Rows for people: set, prompts, loops left out, mean acceptance length, acceptance by position."""
    return [
        (
            name, row["prompts"], row["loops_left_out"], row["mean_acceptance_length"],
            " ".join(f"{p:.2f}" for p in row["position_acceptance"] or ()),
        )
        for name, row in rows.items()
    ]  # fmt: skip
