"""EAGLE-3: a small head drafts from the target's own hidden states (Li et al., 2025)."""

from __future__ import annotations

from specbench.decoder.drafters.base import DrafterContext
from specbench.decoder.drafters.features import FeatureDrafter
from specbench.decoder.models.eagle3 import Eagle3Head


class Eagle3Drafter(FeatureDrafter):
    name = "eagle3"
    head: Eagle3Head


def load(context: DrafterContext) -> Eagle3Drafter:
    """Raises ValueError where there is no directory, or the head in it was made for another target."""
    if context.directory is None:
        raise ValueError("method eagle3 needs the directory of an EAGLE-3 head.")
    head = Eagle3Head.from_directory(context.directory, context.target)
    return Eagle3Drafter(head, context.rows, context.slots, context.stop_below, context.tree)
