"""Recorded answers as padded batches, in an order that a step number alone determines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from specbench.train.record import Record


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """tokens: [B, T] int64 · hidden: [B, T, taps, hidden_size] float32, zeros where no pass saw the token
    first: [B] int64, where the answer begins · lengths: [B] int64, tokens of each row that are no padding
    """

    tokens: Tensor
    hidden: Tensor
    first: Tensor
    lengths: Tensor

    @classmethod
    def of(cls, records: Sequence[Record], device: torch.device) -> TrainingBatch:
        tokens = pad_sequence([r.tokens for r in records], batch_first=True)
        hidden = torch.zeros(*tokens.shape, *records[0].hidden.shape[1:])
        for row, record in enumerate(records):
            hidden[row, : len(record.hidden)] = record.hidden
        return cls(
            tokens=tokens.to(device),
            hidden=hidden.to(device),
            first=torch.tensor([r.prompt_length for r in records], device=device),
            lengths=torch.tensor([len(r.tokens) for r in records], device=device),
        )


def epoch_order(lengths: Sequence[int], budget: int, epoch: int, seed: int = 0) -> list[list[int]]:
    """The batches of one epoch as indexes into `lengths`: like lengths together, at most `budget` tokens with padding.

    The same for the same arguments, so that a run that was killed goes on with the batch that it would have met.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    shuffled = torch.randperm(len(lengths), generator=generator).tolist()
    # Sorting by blurred lengths: batches are of like length, and not the same in every epoch.
    blur = torch.rand(len(lengths), generator=generator).tolist()
    ordered = sorted(shuffled, key=lambda i: lengths[i] * (1 + 0.1 * blur[i]))
    batches: list[list[int]] = [[]]
    longest = 0
    for index in ordered:
        longest = max(longest, lengths[index])
        if batches[-1] and longest * (len(batches[-1]) + 1) > budget:
            batches.append([])
            longest = lengths[index]
        batches[-1].append(index)
    return [batches[i] for i in torch.randperm(len(batches), generator=generator).tolist()]
