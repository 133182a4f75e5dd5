"""Suffix decoding: propose what mostly followed the request's longest repeated endings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft, DrafterContext
from specbench.decoder.request import SequenceState
from specbench.decoder.suffix import SuffixIndex, SuffixMemory, SuffixRule


@dataclass(slots=True)
class _Row:
    sequence: SequenceState
    index: SuffixIndex
    indexed: int

    def catch_up(self) -> None:
        self.index.extend(self.sequence.tokens[self.indexed :])
        self.indexed = len(self.sequence.tokens)


class SuffixDrafter:
    """The rule of `suffix.SuffixIndex`, over each request's own prompt and output.

    memory: of earlier responses; without one every request is on its own, as a benchmark that repeats prompts needs it
    """

    name = "suffix"
    needs_hidden: tuple[int, ...] = ()
    kv_bytes_per_token = 0
    weights_bytes = 0

    def __init__(self, rule: SuffixRule | None = None, memory: SuffixMemory | None = None) -> None:
        self._rule, self._memory = rule or SuffixRule(), memory
        self._rows: dict[int, _Row] = {}

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        index = SuffixIndex(sequence.tokens, self._rule, self._memory)
        self._rows[row] = _Row(sequence, index, len(sequence.tokens))

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        proposals: list[list[int]] = []
        for row, (sequence, limit) in enumerate(zip(batch.sequences, limits, strict=True)):
            if sequence is None:
                proposals.append([])
                continue
            self._rows[row].catch_up()
            proposals.append(self._rows[row].index.propose(limit))
        return Draft.of(proposals, batch.device)

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        pass

    def release(self, row: int) -> None:
        done = self._rows.pop(row, None)
        if done is not None:
            done.catch_up()  # a memory keeps the last tokens too


def load(context: DrafterContext) -> SuffixDrafter:
    rule, kept = SuffixRule(), context.cached_requests
    return SuffixDrafter(rule, SuffixMemory(rule, kept) if kept else None)
