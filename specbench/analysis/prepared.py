"""Drafts that were prepared while the target verified (ssd), and what a second device would make of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specbench.backends.base import EngineCounters


def prepared_figures(counted: Sequence[EngineCounters]) -> dict[str, Any]:
    """By column; nothing where no drafts were prepared."""
    prepared = sum(c.prepared_drafts or 0 for c in counted)
    if not prepared:
        return {}
    return {
        "ready_draft_rate": sum(c.ready_drafts or 0 for c in counted) / prepared,
        "second_device_gain": second_device_gain(counted),
    }


def second_device_gain(counted: Sequence[EngineCounters]) -> float | None:
    """How much faster the same steps would be if drafts were prepared on a device like this one while it verifies, than
    with drafts made when they are needed. A model, not a measurement.

    A step with D seconds of drafting, V of verification and what goes with it, and T of preparing takes V + D as things
    are; with a second device max(V, T) where all drafts are ready, else V + D (Kumar, Dao and May, "Speculative
    speculative decoding", 2026); without a draft V. Communication is not in it.
    """
    passes, drafting = sum(c.passes or 0 for c in counted), sum(c.drafting_passes or 0 for c in counted)
    late = sum(c.late_passes or 0 for c in counted)
    if not late:
        return None

    def seconds(*phases: str) -> float:
        return sum((c.phase_seconds or {}).get(phase, 0.0) for c in counted for phase in phases)

    draft, prepare = seconds("draft") / late, seconds("prepare") / drafting
    verify = seconds("verify", "accept", "host") / passes
    as_it_is = passes * verify + drafting * draft
    with_two = (passes - drafting) * verify + (drafting - late) * max(verify, prepare) + late * (verify + draft)
    return as_it_is / with_two
