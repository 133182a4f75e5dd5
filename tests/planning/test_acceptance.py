"""Tokens per step from hazards: the closed form, and what holds for any of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logit

from specbench.analysis.breakeven import expected_length as closed_form
from specbench.planning.acceptance import expected_length, hazards

LOGITS = st.floats(-6, 6)


@given(st.floats(0.01, 0.99), st.integers(0, 20))
def test_one_hazard_for_all_positions_gives_the_closed_form(alpha: float, gamma: int) -> None:
    assert expected_length(logit(alpha), logit(alpha), 0.0, gamma) == pytest.approx(closed_form(alpha, gamma))


@given(LOGITS, LOGITS, st.floats(-1, 1))
def test_a_longer_draft_never_yields_less_nor_more_than_its_tokens(first: float, later: float, slope: float) -> None:
    lengths = expected_length(first, later, slope, np.arange(12))
    assert lengths[0] == 1
    assert (np.diff(lengths) >= 0).all()
    assert (np.diff(lengths) <= 1).all()


def test_the_first_position_stands_alone_and_the_others_change_evenly_in_logits() -> None:
    found = logit(hazards(-1.0, 2.0, -0.25, 4))
    assert found == pytest.approx([-1.0, 2.0, 1.75, 1.5])


def test_many_draws_at_once_are_each_what_one_gives_alone() -> None:
    first, later, slope = np.random.default_rng(0).normal(size=(3, 5, 1))
    together = expected_length(first, later, slope, np.array([0, 3, 7]))
    assert together.shape == (5, 3)
    assert together[2, 1] == pytest.approx(expected_length(first[2, 0], later[2, 0], slope[2, 0], 3))
