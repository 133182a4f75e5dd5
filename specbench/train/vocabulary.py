"""Which of the target's tokens a drafter may say: its head costs as much as they are many."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.train.data import Shards


def draft_vocabulary(data: Shards, indexes: Sequence[int], vocab_size: int, size: int) -> Tensor:
    """[size] int64, ascending: the tokens most frequent in the recorded answers.

    Where the answers have fewer, the lowest ids fill up: byte-pair encoding numbered its most frequent merges first.
    """
    counts = torch.zeros(vocab_size, dtype=torch.int64)
    for index in indexes:
        record = data[index]
        counts += torch.bincount(record.tokens[record.prompt_length :], minlength=vocab_size)
    # A stable sort keeps equals, the unseen among them, in the order of their ids.
    return counts.argsort(descending=True, stable=True)[: min(size, vocab_size)].sort().values


def coverage(data: Shards, indexes: Sequence[int], token_ids: Tensor) -> float:
    """The share of the recorded answers' tokens that are among `token_ids`."""
    answers = torch.cat([data[i].tokens[data[i].prompt_length :] for i in indexes])
    return float(torch.isin(answers, token_ids).float().mean())
