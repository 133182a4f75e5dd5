"""A query sees the entries whose position is at most its own, wherever they live and whatever was there before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specbench.decoder.cache import EMPTY, Branches, KVCache
from specbench.decoder.config import ModelConfig

CPU = torch.device("cpu")


@pytest.fixture
def config(target: Path) -> ModelConfig:
    return ModelConfig.from_directory(target)


@pytest.fixture
def cache(config: ModelConfig) -> KVCache:
    return KVCache(config, rows=3, slots=30, dtype=torch.float32, device=CPU)


def visible(cache: KVCache, rows: slice, slots: list[list[int]], positions: list[list[int]], used: int) -> torch.Tensor:
    """[B, w, used]: what each new token's first query head sees."""
    view = cache.enter(rows, torch.tensor(slots), torch.tensor(positions), used)
    return view.mask[:, 0, :: view.mask.shape[2] // len(slots[0])] == 0


def test_a_chain_sees_its_past_and_itself(cache: KVCache) -> None:
    seen = visible(cache, slice(0, 1), [[0, 1, 2]], [[0, 1, 2]], used=3)
    assert seen[0, :, :4].tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0]]


def test_entries_of_rejected_tokens_are_invisible_until_overwritten(cache: KVCache) -> None:
    visible(cache, slice(0, 1), [[0, 1, 2, 3]], [[0, 1, 2, 3]], used=4)
    # Only token 0 and the first drafted one were kept: the next step goes on at position 2, one token wide.
    seen = visible(cache, slice(0, 1), [[2]], [[2]], used=3)
    assert seen[0, 0].nonzero().flatten().tolist() == [0, 1, 2]


def test_positions_rule_and_not_slots(cache: KVCache) -> None:
    seen = visible(cache, slice(0, 1), [[7, 3, 5]], [[0, 1, 1]], used=8)
    assert [row.nonzero().flatten().tolist() for row in seen[0]] == [[7], [3, 5, 7], [3, 5, 7]]


def test_rows_do_not_see_each_other_nor_a_cleared_past(cache: KVCache) -> None:
    visible(cache, slice(0, 3), [[0, 1]] * 3, [[0, 1]] * 3, used=2)
    cache.clear(1)
    assert cache.positions[1].tolist() == [EMPTY] * cache.slots
    seen = visible(cache, slice(0, 2), [[2], [0]], [[2], [0]], used=3)
    assert [row.nonzero().flatten().tolist() for row in seen[:, 0]] == [[0, 1, 2], [0]]


def test_keys_and_values_land_in_the_slots_of_their_row(cache: KVCache, config: ModelConfig) -> None:
    view = cache.enter(slice(1, 3), torch.tensor([[4, 6], [0, 2]]), torch.tensor([[0, 1], [0, 1]]), used=7)
    width = 2 * config.num_kv_heads * config.head_dim
    new = torch.arange(4.0)[:, None] * 1000 + torch.arange(float(width))
    view.write(2, new)
    split = config.num_kv_heads * config.head_dim
    for token, (row, slot) in enumerate([(0, 4), (0, 6), (1, 0), (1, 2)]):
        assert torch.equal(view.keys(2)[row, :, slot].flatten(), new[token, :split])
        assert torch.equal(view.values(2)[row, :, slot].flatten(), new[token, split:])
    assert cache.entries[:, 0].count_nonzero() == 0
    assert cache.entries[[0, 1, 3]].count_nonzero() == 0


def test_bytes_per_token_are_those_of_keys_and_values(cache: KVCache, config: ModelConfig) -> None:
    assert cache.bytes_per_token == 2 * config.num_layers * config.num_kv_heads * config.head_dim * 4


def test_a_node_of_a_tree_sees_the_text_and_its_ancestors_and_no_sibling(cache: KVCache) -> None:
    visible(cache, slice(0, 2), [[0, 1, 2]] * 2, [[0, 1, 2]] * 2, used=3)
    # Behind root 3 of each row two branches: 4 and 5 side by side, 6 below 5.
    slots, positions = torch.tensor([[3, 4, 5, 6]] * 2), torch.tensor([[3, 4, 4, 5]] * 2)
    seen = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 1]], dtype=torch.bool).expand(2, -1, -1)
    mask = cache.enter(slice(0, 2), slots, positions, 7, Branches(slots, seen)).mask
    ours = [row.nonzero().flatten().tolist() for row in mask[1, 0, :: mask.shape[2] // 4] == 0]
    assert ours == [[0, 1, 2, 3], [0, 1, 2, 3, 4], [0, 1, 2, 3, 5], [0, 1, 2, 3, 5, 6]]


def test_the_branch_that_is_kept_stands_behind_the_text_as_a_chain_would(cache: KVCache) -> None:
    slots, positions = torch.tensor([[3, 4, 5, 6, 7]] * 2), torch.tensor([[3, 4, 4, 5, 6]] * 2)
    cache.enter(slice(0, 2), slots, positions, 8, Branches(slots, torch.ones(2, 5, 5, dtype=torch.bool)))
    cache.entries[:, :2] = torch.arange(float(cache.slots))[:, None, None, None]
    # Row 0 keeps 5 and 6; row 1 nothing.
    cache.keep_branch(slice(0, 2), torch.tensor([3, 3]), torch.tensor([[2, 3, 3], [1, 2, 3]]), width=4)
    assert cache.entries[0, :2, 3:8, 0, 0, 0].tolist() == [[3, 5, 6, 6, 7], [3, 4, 5, 6, 7]]
    # What is left of the tree lies after every query: one at position 6 sees 0..6.
    assert cache.positions[:2, 3:8].tolist() == [[3, 4, 5, 6, 7]] * 2
    seen = visible(cache, slice(0, 1), [[6]], [[6]], used=7)
    assert seen[0, 0].nonzero().flatten().tolist() == [3, 4, 5, 6]
