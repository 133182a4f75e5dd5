"""Multi-token prediction: a decoder layer after the target's last one drafts, fed on its own output."""

from __future__ import annotations

from specbench.decoder.drafters.base import DrafterContext
from specbench.decoder.drafters.features import FeatureDrafter
from specbench.decoder.models.mtp import load_mtp


class MtpDrafter(FeatureDrafter):
    name = "mtp"


def load(context: DrafterContext) -> MtpDrafter:
    """The head that the target brings, or that of a directory. Raises ValueError where there is none that fits."""
    head = load_mtp(context.directory or context.target_directory, context.target)
    return MtpDrafter(head, context.rows, context.slots, context.stop_below, context.tree)
