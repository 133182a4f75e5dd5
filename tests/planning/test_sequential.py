"""Choosing cells one after another: it decides as the truth would, from few cells, and stops when told to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from known_cells import MODEL, THETA, grid, measure

from specbench.planning.cells import Observation, Point
from specbench.planning.fit import fit
from specbench.planning.prediction import calibrated
from specbench.planning.sequential import Costs, Look, look, start_design

POINTS = grid(["eagle3"])


def run(
    seen: Sequence[Observation], *, launch: float = 0.0, confidence: float = 0.95, budget: float = float("inf")
) -> tuple[list[tuple[int, ...]], Look]:
    """The visits that it asks for, each shown as in `seen`, and the look at which it stops."""
    points, visits = [o.point for o in seen], list[tuple[int, ...]]()
    costs = Costs(launch, (1.0,) * len(points))
    while True:
        taken = [i for visit in visits for i in visit]
        found = calibrated(fit(MODEL, [seen[i] for i in taken])) if taken else None
        left = dict.fromkeys(set(range(len(points))) - set(taken), 1)
        spent = sum(map(costs.of, visits))
        shown = look(found, points, left, costs, confidence=confidence, budget=budget - spent)
        if not shown.visit:
            return visits, shown
        assert set(shown.visit) <= set(left)
        assert len({(points[i].method, points[i].gamma) for i in shown.visit}) == 1
        visits.append(shown.visit)


def places(indices: Sequence[int], points: Sequence[Point]) -> list[tuple[str, int, int]]:
    return [(points[i].method, points[i].gamma, points[i].batch_size) for i in indices]


class TestStartDesign:
    def test_of_one_method_it_is_the_corners_and_the_middle(self) -> None:
        assert places(start_design(POINTS), POINTS) == [
            *(("none", 0, 16), ("none", 0, 64)),
            *(("eagle3", 3, 1), ("eagle3", 7, 64), ("eagle3", 1, 16)),
        ]

    def test_of_several_each_arm_has_a_part(self) -> None:
        points = grid()
        chosen = start_design(points)
        assert len(chosen) == 5
        assert {points[i].method for i in chosen} == {"none", "eagle3", "ngram"}

    def test_a_grid_without_plain_decoding_has_one_too(self) -> None:
        points = [p for p in POINTS if p.gamma]
        assert len(start_design(points)) == 3


def test_what_it_settles_is_as_good_as_the_truth_says_and_takes_a_part_of_the_grid() -> None:
    """Pooled over worlds with other parameters, of which the model's form misses a little."""
    good, cells = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth = THETA + 0.3 * MODEL.prior().spread * rng.standard_normal(len(THETA))
        visits, shown = run(measure(POINTS, 0.02, form=0.02, seed=seed, theta=truth))
        rates = MODEL.steps(truth, POINTS).tokens_per_second
        good += [rates[b.best] >= rates[[b.best, *b.ahead]].max() / 1.05 for b in shown.best if b.probability >= 0.95]
        cells.append(sum(map(len, visits)))
    assert len(good) >= 15
    assert np.mean(good) >= 0.95
    assert np.mean(cells) < 0.7 * len(POINTS)


def test_an_arm_is_only_settled_on_once_it_was_measured_beside_plain_decoding() -> None:
    visits, shown = run(measure(POINTS, 0.005))
    assert shown.reason == "settled"
    taken = {POINTS[i].key for visit in visits for i in visit}
    winners = {(POINTS[b.best].method, POINTS[b.best].gamma) for b in shown.best if POINTS[b.best].gamma}
    assert winners
    for method, gamma in winners:
        assert any({p.key, p.plain.key} <= taken for p in POINTS if (p.method, p.gamma) == (method, gamma))


def test_a_dear_launch_is_used_for_more_cells() -> None:
    seen = measure(POINTS, 0.1, told=False)
    (cheap, _), (dear, _) = run(seen), run(seen, launch=5.0)
    assert np.mean([len(visit) for visit in dear]) > np.mean([len(visit) for visit in cheap])


def test_what_nothing_can_settle_is_given_up_and_it_says_so() -> None:
    seen = measure(POINTS[:12], 0.5, told=False)
    visits, shown = run(seen, launch=5.0)
    assert shown.reason == "out of reach"
    assert sum(map(len, visits)) < 12
    assert any(b.probability < 0.95 for b in shown.best)


def test_more_replicates_bring_a_place_into_reach() -> None:
    points = POINTS[:12]
    seen = measure(points, 0.5, told=False)
    visits, shown = run(seen, launch=5.0)
    assert shown.reason == "out of reach"
    found = calibrated(fit(MODEL, [seen[i] for visit in visits for i in visit]))
    often = dict.fromkeys(range(12), 100_000)
    assert look(found, points, often, Costs(5.0, (1.0,) * 12)).visit


@settings(max_examples=8)
@given(budget=st.floats(0, 14), launch=st.floats(0, 3), seed=st.integers(0, 99))
def test_it_never_spends_more_than_the_budget(budget: float, launch: float, seed: int) -> None:
    visits, shown = run(measure(POINTS, 0.05, seed=seed), launch=launch, budget=budget, confidence=0.999)
    assert sum(launch + len(visit) for visit in visits) <= budget + 1e-9
    assert shown.reason in ("budget", "settled", "out of reach")
    assert bool(shown.best) == bool(visits)


def test_without_any_cell_to_measure_it_stops() -> None:
    assert look(None, POINTS, {}, Costs(1.0, (1.0,) * len(POINTS))) == Look((), (), "nothing left")
