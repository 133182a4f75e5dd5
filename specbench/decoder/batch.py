"""The live rows of the engine as one batch: what a forward pass and a drafter need to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specbench.decoder import noise
from specbench.decoder.request import SequenceState
from specbench.decoder.sampling import SamplingParams, Warp

DEAD = SamplingParams(temperature=0.0)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows 0..B-1; a row without a request is None: it is computed along, and its results are ignored.

    seeds [B] int64 · draft_stream: the noise stream that a sampling drafter draws from (`noise.DRAFT`; under coupled
    verification the target's own, under block verification `noise.BLOCK`)
    """

    sequences: tuple[SequenceState | None, ...]
    warp: Warp
    seeds: Tensor
    draft_stream: int

    @classmethod
    def of(cls, sequences: Sequence[SequenceState | None], draft_stream: int, device: torch.device) -> Batch:
        params = [DEAD if s is None else s.request.params for s in sequences]
        return cls(
            sequences=tuple(sequences),
            warp=Warp.stack(params, device),
            seeds=torch.tensor([p.seed for p in params], dtype=torch.int64, device=device),
            draft_stream=draft_stream,
        )

    @property
    def size(self) -> int:
        return len(self.sequences)

    @property
    def device(self) -> torch.device:
        return self.seeds.device

    def lengths(self) -> list[int]:
        """[B] tokens of each row, the newest included; 1 for a dead row, whose entries go to its first slots."""
        return [1 if s is None else len(s.tokens) for s in self.sequences]

    def draft_noise(self, positions: Tensor, vocab: int) -> Tensor:
        """What a sampling drafter draws its tokens with. positions [B, w], those of the tokens -> [B, w, vocab]"""
        if self.draft_stream != noise.BLOCK:
            return noise.exponential(self.seeds, positions, self.draft_stream, vocab)
        lengths = self.on_device(self.lengths())
        return noise.exponential(noise.fork(self.seeds, lengths, noise.BLOCK), positions, noise.DRAFT, vocab)

    def newest(self, width: int) -> tuple[Tensor, Tensor]:
        """The last `width` tokens of each row and their positions, both [B, width] int64.

        A shorter row repeats its first token, at its first position: entering it again changes nothing.
        """
        tokens, positions = self.newest_lists(width)
        return self.on_device(tokens), self.on_device(positions)

    def on_device(self, numbers: list[int] | list[list[int]]) -> Tensor:
        """int64, of the shape of the lists. The host does not wait for a GPU with it: what it copies from is pinned."""
        pinned = torch.tensor(numbers, dtype=torch.int64, pin_memory=self.device.type == "cuda")
        return pinned.to(self.device, non_blocking=True)

    def newest_lists(self, width: int) -> tuple[list[list[int]], list[list[int]]]:
        """The same on the host."""
        rows = [[0] if s is None else s.tokens for s in self.sequences]
        positions = [[max(0, i) for i in range(len(row) - width, len(row))] for row in rows]
        return [[row[i] for i in at] for row, at in zip(rows, positions, strict=True)], positions
