"""No rule that sets gamma can do better than the oracle, and the oracle's way is one that a rule could take."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.profile.lookups import NgramProfiler, SuffixProfiler
from specbench.profile.offsets import DraftTable, Transcript, walk
from specbench.profile.oracle import best_gamma, least_cost, speedup
from specbench.profile.tally import Tally

TEXT = st.lists(st.integers(0, 1), min_size=2, max_size=24)
COST = st.sampled_from([0.0, 0.05, 0.3, 2.0])
GAMMAS = (1, 2, 3)


@given(
    prompt=TEXT,
    response=TEXT,
    cost=COST,
    spare=st.integers(0, 3),
    lookup=st.sampled_from([NgramProfiler, SuffixProfiler]),
)
def test_it_is_the_cheapest_of_all_choices(
    prompt: list[int], response: list[int], cost: float, spare: int, lookup: type[NgramProfiler | SuffixProfiler]
) -> None:
    transcript = Transcript("", prompt, response, len(response) + spare)
    table = lookup().table(transcript, max(GAMMAS))

    @cache
    def tried(t: int) -> float:
        """Every number of allowed tokens in every step, one after the other."""
        if t >= len(response):
            return 0.0
        allowed = min(max(GAMMAS), len(response) + spare - t - 1)
        ways = [(int(table.drafted[k - 1, t]), int(table.accepted[k - 1, t])) for k in range(1, allowed + 1)]
        return min(1 + cost * drafted + tried(t + accepted + 1) for drafted, accepted in [(0, 0), *ways])

    least = least_cost(table, transcript, cost)
    assert least == pytest.approx(tried(1))
    for gamma in GAMMAS:
        steps = walk(table, transcript, gamma)
        assert least <= len(steps.at) + cost * steps.drafted.sum() + 1e-9
    assert least <= len(response) - 1


def tally(runs: list[int], gamma: int) -> Tally:
    found = Tally(gamma)
    found.add(walk(DraftTable.of_runs(np.array(runs), gamma), Transcript("", [0], [0] * len(runs)), gamma))
    return found


# Twelve tokens after the first; drafts have two tokens right, then one wrong, over and over.
RUNS = [0, *[2, 1, 0] * 4]


@pytest.mark.parametrize(
    ("cost", "gamma", "predicted"),
    [
        (0.0, 2, 12 / 4),
        # Four steps of two drafted tokens.
        (0.25, 2, 12 / (4 * 1.5)),
        # The formula of Leviathan et al. for drafts that are all accepted: (gamma + 1) / (gamma c + 1).
        (0.1, 2, 3 / 1.2),
    ],
)
def test_predicted_speedup_is_tokens_over_cost(cost: float, gamma: int, predicted: float) -> None:
    assert speedup(tally(RUNS, gamma), cost) == pytest.approx(predicted)


@pytest.mark.parametrize(("cost", "best"), [(0.0, 2), (0.2, 2), (0.5, 1), (0.9, 0)])
def test_the_dearer_a_drafted_token_the_smaller_the_best_gamma(cost: float, best: int) -> None:
    # One token right at most places, two at some: five steps with gamma 1 for nine tokens, four with gamma 2.
    runs = [0, *[1, 0, 1, 0, 1, 0, 2, 1, 0] * 2]
    assert best_gamma({gamma: tally(runs, gamma) for gamma in (1, 2, 4)}, cost) == best


def test_without_a_step_nothing_is_predicted() -> None:
    assert speedup(Tally(3), 0.1) is None
    assert best_gamma({3: Tally(3)}, 0.0) == 0
