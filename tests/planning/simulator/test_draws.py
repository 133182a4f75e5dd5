"""A request's random numbers: SplitMix64, whoever asks and in whatever order."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from specbench.planning.simulator.draws import uniform


def test_numbers_are_those_that_splitmix64_is_known_to_give() -> None:
    """The first of seed 1234567, as published with its reference implementation."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [uniform(1234567, k) for k in range(1, 5)] == [(word >> 11) * 2.0**-53 for word in published]


@pytest.mark.parametrize("along", ["keys", "positions"])
def test_numbers_are_even_along_an_answer_and_across_requests(along: str) -> None:
    keys = np.random.default_rng(0).integers(0, 2**63, 20_000)
    drawn = [uniform(k, 7) if along == "keys" else uniform(keys[0], at) for at, k in enumerate(keys.tolist())]
    assert kstest(drawn, "uniform").pvalue > 1e-3
