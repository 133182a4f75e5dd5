"""Randomised PIT: uniform for the target's own tokens, whatever is known of its distributions."""

from __future__ import annotations

import numpy as np
from scipy import stats

from specbench.equivalence.sampling import pit
from specbench.equivalence.sampling.observations import Distribution, Draw, Known


def made(rng: np.random.Generator, count: int, sharpen: float = 1.0) -> tuple[list[Draw], Known]:
    """One token after a first one, at `count` places with distributions of their own of which the top 5 are known.

    sharpen: the power that the probabilities are raised to when tokens are drawn; 1 is the target's own
    """
    draws, known = [], {}
    for number in range(count):
        p = np.sort(rng.dirichlet(np.full(30, 0.3)))[::-1]
        f = p**sharpen / (p**sharpen).sum()
        draws.append(Draw(number, (0, int(rng.choice(30, p=f)))))
        known[number, (0,)] = Distribution(tuple(range(5)), tuple(map(float, p[:5])))
    return draws, known


def values(draws: list[Draw], known: Known, rng: np.random.Generator) -> np.ndarray:
    return pit.values(draws, known, Draw.stepped, rng)


def test_the_targets_own_tokens_give_uniform_values() -> None:
    rng = np.random.default_rng(0)
    u = values(*made(rng, 20_000), rng)
    assert len(u) == 20_000
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 0.03


def test_p_values_of_correct_samplers_are_uniform() -> None:
    rng = np.random.default_rng(1)
    found = [[t.p for t in pit.tests(values(*made(rng, 150), rng))] for _ in range(300)]
    for p_values in np.array(found, dtype=float).T:
        assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_a_sharper_sampler_is_found_from_positions_that_never_repeat() -> None:
    rng = np.random.default_rng(2)
    for test in pit.tests(values(*made(rng, 3_000, sharpen=1.25), rng)):
        assert test.p < 1e-4


def test_too_few_positions_make_no_test() -> None:
    rng = np.random.default_rng(3)
    assert [test.p for test in pit.tests(values(*made(rng, 40), rng))] == [None, None]
