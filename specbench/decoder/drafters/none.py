"""No speculation: one token per step, the baseline."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.request import SequenceState


class NoDrafter:
    name = "none"
    needs_hidden: tuple[int, ...] = ()
    kv_bytes_per_token = 0
    weights_bytes = 0

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        pass

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        return Draft.none(batch)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        pass

    def release(self, row: int) -> None:
        pass


def load(context: DrafterContext) -> NoDrafter:
    return NoDrafter()
