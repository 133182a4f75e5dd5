"""The G-tests against scipy's, their false alarms, and the interval of the effect."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from specbench.equivalence.sampling.frequencies import effect, one_sample, two_sample, williams
from specbench.equivalence.sampling.strata import Stratum, pool

P = np.array([0.4, 0.25, 0.15, 0.1, 0.06, 0.04])


def test_the_statistic_is_scipys_but_for_williams_correction() -> None:
    part = Stratum(np.array([50.0, 20, 12, 9, 6, 3]), P)
    expected = stats.power_divergence(part.counts, 100 * P, lambda_="log-likelihood")
    found = one_sample("g", [part], 1e-4)
    assert found.statistic == pytest.approx(expected.statistic / williams(part))
    assert found.df == 5
    twice = one_sample("g", [part, part], 1e-4)
    assert twice.statistic == pytest.approx(2 * found.statistic)
    assert twice.df == 10


def test_two_samples_are_compared_as_scipy_compares_a_table() -> None:
    a, b = np.array([60.0, 30, 10]), np.array([150.0, 120, 30])
    found = two_sample("g", [(a, b)], 1e-4)
    expected = stats.chi2_contingency([a, b], correction=False, lambda_="log-likelihood")
    assert found.df == expected.dof
    assert 0.97 * expected.statistic < found.statistic < expected.statistic


@pytest.mark.parametrize("n", [60, 300, 2_000])
def test_one_correct_sampler_in_a_hundred_is_accused_at_level_one_percent(n: int) -> None:
    rng = np.random.default_rng(n)
    p_values = [one_sample("g", [pool(counts.astype(float), P)], 1e-4).p for counts in rng.multinomial(n, P, 6_000)]
    assert 0.006 < np.mean(np.array(p_values) < 0.01) < 0.0145  # 3.5 standard errors around 0.01, and n = 60 is small


def test_two_samples_of_one_distribution_are_accused_as_rarely() -> None:
    rng = np.random.default_rng(1)
    tables = zip(rng.multinomial(150, P, 4_000), rng.multinomial(400, P, 4_000), strict=True)
    pairs = [(a[:5].astype(float), b[:5].astype(float)) for a, b in tables]
    p_values = np.array([two_sample("g", [pair], 1e-4).p for pair in pairs])
    assert 0.0055 < np.mean(p_values < 0.01) < 0.0155


def test_the_interval_of_the_total_variation_holds_the_truth() -> None:
    rng = np.random.default_rng(3)
    for shift in (0.0, 0.05, 0.2):
        f = P + shift * np.array([-1, 1, 0, 0, 0, 0])
        found = [effect([Stratum(c.astype(float), P)]) for c in rng.multinomial(500, f, 1_000)]
        assert np.mean([e.low <= shift <= e.high for e in found]) >= 0.95
        assert np.mean([e.tv for e in found]) == pytest.approx(shift, abs=0.02)


def test_no_draws_make_no_test() -> None:
    assert one_sample("g", [], 1e-4).p is None
    assert two_sample("g", [], 1e-4).p is None
