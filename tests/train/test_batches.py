"""Each record once per epoch, in batches of a bounded size, and the same ones after a restart."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from specbench.train.batches import TrainingBatch, epoch_order
from specbench.train.record import Record

LENGTHS = st.lists(st.integers(3, 400), min_size=1, max_size=60)


@given(LENGTHS, st.integers(64, 2048), st.integers(0, 5))
def test_an_epoch_visits_every_record_once_in_batches_within_the_budget(
    lengths: list[int], budget: int, epoch: int
) -> None:
    batches = epoch_order(lengths, budget, epoch)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= budget


@given(LENGTHS, st.integers(0, 3))
def test_the_order_is_a_matter_of_the_epoch_and_the_seed_alone(lengths: list[int], epoch: int) -> None:
    assert epoch_order(lengths, 512, epoch) == epoch_order(lengths, 512, epoch)


def test_epochs_differ() -> None:
    assert epoch_order(list(range(10, 60)), 256, 0) != epoch_order(list(range(10, 60)), 256, 1)


def test_padding_is_zeros_behind_each_record() -> None:
    records = [
        Record(str(n), torch.arange(1, n + 1), prompt_length=2, hidden=torch.ones(n - 1, 4, 8, dtype=torch.bfloat16))
        for n in (4, 6)
    ]
    batch = TrainingBatch.of(records, torch.device("cpu"))
    assert batch.tokens.tolist() == [[1, 2, 3, 4, 0, 0], [1, 2, 3, 4, 5, 6]]
    assert batch.hidden.sum((2, 3)).bool().tolist() == [[True] * 3 + [False] * 3, [True] * 5 + [False]]
    assert (batch.first.tolist(), batch.lengths.tolist()) == ([2, 2], [4, 6])
