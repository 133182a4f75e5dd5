"""3-grams by permutation: exact under equal distributions, and sees what single tokens hide."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specbench.equivalence.sampling import joint
from specbench.equivalence.sampling.observations import Draw


def chain(rng: np.random.Generator, n: int, repeats: float) -> np.ndarray:
    """[n, 3] tokens of 0..5, each uniform; with probability `repeats` the second says the first again."""
    x = rng.integers(0, 6, (n, 3))
    again = rng.random(n) < repeats
    x[again, 1] = x[again, 0]
    return x


def test_p_values_of_equal_samplers_are_uniform() -> None:
    rng = np.random.default_rng(0)
    p_values = [
        joint.permutation_test({0: chain(rng, 30, 0.2)}, {0: chain(rng, 40, 0.2)}, rng, permutations=199).p
        for _ in range(400)
    ]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-3


def test_tokens_that_only_together_are_wrong_are_found() -> None:
    rng = np.random.default_rng(1)
    a, b = chain(rng, 400, 0.0), chain(rng, 400, 0.6)
    for place in range(3):
        counts = np.array([np.bincount(x[:, place], minlength=6) for x in (a, b)])
        assert stats.chi2_contingency(counts).pvalue > 1e-3
    found = joint.permutation_test({0: a}, {0: b}, rng)
    assert found.p == 1 / 20_000  # as small as 19,999 permutations can say


def test_contexts_are_never_mixed() -> None:
    """Two contexts that differ between themselves, but not between the arms, are no finding."""
    rng = np.random.default_rng(2)
    a = {0: chain(rng, 60, 0.0), 1: chain(rng, 60, 1.0)}
    b = {0: chain(rng, 60, 0.0), 1: chain(rng, 60, 1.0)}
    assert joint.permutation_test(a, b, rng, permutations=999).p > 0.01


def test_grams_begin_after_the_prefills_token() -> None:
    found = joint.grams([Draw(0, (9, 1, 2, 3, 4)), Draw(0, (9, 1, 2))])
    assert found[0].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize("tests", [6, 24, 240])
def test_it_can_reject_by_itself_however_many_tests_there_are(tests: int) -> None:
    level = 1e-3 / tests
    assert 1 / (1 + joint.permutations_for(level)) < level
    assert joint.permutations_for(level) >= joint.PERMUTATIONS
