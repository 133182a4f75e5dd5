"""A drafter that knows what comes: it drafts chains and trees of any form, right as often as it likes."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from specbench.decoder.batch import Batch
from specbench.decoder.drafters.base import Draft
from specbench.decoder.request import SequenceState
from specbench.decoder.tree import Tree

NODES = 9


class GuessingDrafter:
    """outputs: what each request will say, by its id"""

    name = "guessing"
    needs_hidden: tuple[int, ...] = ()
    kv_bytes_per_token = 0
    weights_bytes = 0

    def __init__(self, outputs: Mapping[str, Sequence[int]], vocab: int, seed: int) -> None:
        self._outputs, self._vocab, self._chance = outputs, vocab, random.Random(seed)

    def prefill(self, row: int, sequence: SequenceState, hidden: Tensor | None) -> None:
        pass

    def propose(self, batch: Batch, limits: Sequence[int]) -> Draft:
        if self._chance.random() < 0.3:
            chains = [self._ahead(s, limit) for s, limit in zip(batch.sequences, limits, strict=True)]
            return Draft.of(chains, batch.device)
        nodes = self._chance.randrange(1, NODES)
        parents = [[self._chance.randint(0, node) for node in range(nodes)] for _ in batch.sequences]
        tree = Tree.of(torch.tensor(parents), nodes)
        tokens = []
        for row, (sequence, limit) in enumerate(zip(batch.sequences, limits, strict=True)):
            ahead = self._ahead(sequence, limit)
            depths = tree.depths[row, 1:].tolist()
            right = [depth <= len(ahead) and self._chance.random() < 0.8 for depth in depths]
            fallback = [self._chance.randrange(self._vocab) if depth <= limit else -1 for depth in depths]
            tokens.append([ahead[d - 1] if r else f for d, r, f in zip(depths, right, fallback, strict=True)])
        return Draft(torch.tensor(tokens), tree=tree)

    def _ahead(self, sequence: SequenceState | None, limit: int) -> list[int]:
        if sequence is None:
            return []
        done = len(sequence.tokens) - len(sequence.request.prompt_ids)
        return list(self._outputs[sequence.request.id][done : done + limit])

    def observe(self, batch: Batch, accepted: Sequence[int], hidden: Tensor | None) -> None:
        pass

    def release(self, row: int) -> None:
        pass
