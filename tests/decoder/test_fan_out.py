"""Guesses go where they save most."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.decoder.fan_out import fan_out


@given(gamma=st.integers(1, 10), extra=st.integers(0, 60), alpha=st.floats(0, 1))
def test_every_outcome_has_a_guess_and_none_is_left_over(gamma: int, extra: int, alpha: float) -> None:
    counts = fan_out(gamma + 1 + extra, gamma, alpha)
    assert len(counts) == gamma + 1
    assert sum(counts) == gamma + 1 + extra
    assert min(counts) >= 1
    assert list(counts[:-1]) == sorted(counts[:-1], reverse=True)


@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.8, 0.95])
def test_misses_are_nearly_as_few_as_any_split_allows(alpha: float) -> None:
    gamma, budget = 3, 16
    likely = [alpha**k * (1 - alpha) for k in range(gamma)] + [alpha**gamma]

    def misses(counts: tuple[int, ...]) -> float:
        return sum(p / count for p, count in zip(likely, counts, strict=True))

    splits = (c for c in itertools.product(range(1, budget), repeat=gamma + 1) if sum(c) == budget)
    assert misses(fan_out(budget, gamma, alpha)) <= 1.1 * min(map(misses, splits))


def test_too_few_guesses_are_refused() -> None:
    with pytest.raises(ValueError, match="3 guesses are too few for 4 outcomes"):
        fan_out(3, 3, 0.5)
