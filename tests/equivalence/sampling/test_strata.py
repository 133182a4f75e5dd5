"""Counting by place, and pooling what is too small to count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.equivalence.sampling.observations import Distribution, Draw
from specbench.equivalence.sampling.strata import paired_counts, pool, strata


@given(st.lists(st.integers(1, 1000), min_size=2, max_size=60), st.integers(10, 5000), st.integers(0, 2**32 - 1))
def test_pooling_loses_nothing_and_leaves_no_cell_too_small(weights: list[int], n: int, seed: int) -> None:
    probs = np.array(weights) / sum(weights)
    counts = np.random.default_rng(seed).multinomial(n, probs).astype(float)
    pooled = pool(counts, probs)
    assert pooled.counts.sum() == pytest.approx(n)
    assert pooled.probs.sum() == pytest.approx(1)
    if len(pooled.probs) > 1:
        assert pooled.probs.min() >= 0.01 - 1e-12
        assert n * pooled.probs.min() >= 5 - 1e-9


def test_each_token_is_counted_where_it_was_drawn() -> None:
    draws = [Draw(0, (1, 5)) for _ in range(30)] + [Draw(0, (1, 6)) for _ in range(20)] + [Draw(0, (2, 5))] * 3
    known = {(0, (1,)): Distribution((5, 6), (0.5, 0.5)), (0, (2,)): Distribution((5, 6), (0.5, 0.5))}
    (only,) = strata(draws, known, Draw.stepped)
    assert list(only.counts) == [30, 20]  # the place after token 2 has too few draws


def test_the_choice_of_places_does_not_look_at_the_tokens_drawn_there() -> None:
    a = [Draw(0, (1, token % 3)) for token in range(90)]
    b = [Draw(0, (1, 0)) for _ in range(90)]
    known = {(0, (1,)): Distribution((0, 1, 2), (0.4, 0.3, 0.3))}
    assert len(strata(a, known, Draw.stepped)) == len(strata(b, known, Draw.stepped)) == 1


def test_two_samples_are_counted_in_the_same_cells() -> None:
    a = [Draw(0, (1, token)) for token in (5, 5, 6, 7) for _ in range(25)]
    b = [Draw(0, (1, token)) for token in (5, 6, 6, 6) for _ in range(25)]
    ((x, y),) = paired_counts(a, b, Draw.stepped)
    assert list(x) == [25, 50, 25]
    assert list(y) == [75, 25, 0]
