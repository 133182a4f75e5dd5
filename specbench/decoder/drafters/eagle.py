"""EAGLE-1: a head regresses the target's next features, and the target's own head reads tokens from them."""

from __future__ import annotations

from specbench.decoder.drafters.base import DrafterContext
from specbench.decoder.drafters.features import FeatureDrafter
from specbench.decoder.models.eagle import load_eagle


class EagleDrafter(FeatureDrafter):
    name = "eagle"


def load(context: DrafterContext) -> EagleDrafter:
    """Raises ValueError where there is no directory, or the head in it was made for another target."""
    if context.directory is None:
        raise ValueError("method eagle needs the directory of an EAGLE head.")
    head = load_eagle(context.directory, context.target)
    return EagleDrafter(head, context.rows, context.slots, context.stop_below, context.tree)
