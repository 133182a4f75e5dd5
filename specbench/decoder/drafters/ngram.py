"""Prompt lookup: propose what followed when the sequence's last tokens stood there before."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.lookup import NgramIndex
from specbench.decoder.request import SequenceState


class NgramDrafter:
    """The rule of `lookup.NgramIndex`, over each request's own prompt and output."""

    name = "ngram"
    needs_hidden: tuple[int, ...] = ()
    kv_bytes_per_token = 0
    weights_bytes = 0

    def __init__(self, min_n: int = 2, max_n: int = 4) -> None:
        self._min_n, self._max_n = min_n, max_n
        self._indexes: dict[int, NgramIndex] = {}
        self._indexed: dict[int, int] = {}

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        self._indexes[row] = NgramIndex(self._min_n, self._max_n)
        self._indexed[row] = 0

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        proposals: list[list[int]] = []
        for row, (sequence, limit) in enumerate(zip(batch.sequences, limits, strict=True)):
            if sequence is None:
                proposals.append([])
                continue
            index = self._indexes[row]
            index.extend(sequence.tokens[self._indexed[row] :])
            self._indexed[row] = len(sequence.tokens)
            proposals.append(index.propose(limit))
        return Draft.of(proposals, batch.device)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        pass

    def release(self, row: int) -> None:
        self._indexes.pop(row, None)
        self._indexed.pop(row, None)


def load(context: DrafterContext) -> NgramDrafter:
    return NgramDrafter()
