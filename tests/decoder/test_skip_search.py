"""Which sublayers are tried: always as many, never of the outer layers, and the best one found stays in use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.decoder.skip_search import SkipSearch


@given(layers=st.integers(3, 40), agreements=st.lists(st.floats(0, 0.94), min_size=1, max_size=60))
def test_the_best_of_what_was_judged_is_in_use_and_the_outer_layers_stay(layers: int, agreements: list[float]) -> None:
    search = SkipSearch(layers)
    first, judged = search.best, []
    for agreement in agreements:
        candidate = search.candidate()
        assert len(candidate) == len(first) == max(1, round(0.45 * 2 * (layers - 2)))
        assert {layer for layer, _ in candidate} <= set(range(1, layers - 1))
        better = search.judge(agreement)
        assert better == (agreement > max((a for a, _ in judged), default=-1))
        judged.append((agreement, candidate))
    assert judged[0][1] == first
    best = max(a for a, _ in judged)
    assert search.agreement == best
    assert search.best == next(candidate for a, candidate in judged if a == best)


def test_it_begins_with_every_second_layer() -> None:
    assert {layer for layer, _ in SkipSearch(30).best} <= set(range(1, 29, 2))


@pytest.mark.parametrize(
    ("agreements", "trials"),
    [([0.2, 0.95], 2), ([0.5] * 400, 301), ([i / 2000 for i in range(1200)], 1000)],
    ids=["good enough", "fruitless", "long enough"],
)
def test_it_ends(agreements: list[float], trials: int) -> None:
    search, count = SkipSearch(12), 0
    for agreement in agreements:
        if not search.goes_on:
            break
        search.candidate()
        search.judge(agreement)
        count += 1
    assert (count, search.goes_on) == (trials, False)


def test_a_guided_trial_is_better_than_most_chosen_by_chance() -> None:
    """Where every sublayer of the first half that is skipped costs a share of the agreement."""
    guided, by_chance = [], []
    for seed in range(20):
        search = SkipSearch(30, seed)
        for trial in range(101):
            candidate = search.candidate()
            agreement = 0.9 - 0.9 * sum(layer < 15 for layer, _ in candidate) / len(candidate)
            search.judge(agreement)
            if trial in (75, 100):
                guided.append(agreement)
            elif trial > 25 and trial % 25:
                by_chance.append(agreement)
    assert sum(guided) / len(guided) > sorted(by_chance)[len(by_chance) * 3 // 4]
