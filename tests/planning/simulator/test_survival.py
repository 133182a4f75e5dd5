"""Requests differ in how much of their drafts is kept; pooled over steps they are what was fitted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.planning.acceptance import expected_length, hazards
from specbench.planning.simulator import Acceptance
from specbench.planning.simulator.survival import KINDS, survival

logits = st.floats(-3, 3)


@given(logits, logits, st.floats(-0.3, 0.1), st.integers(1, 8))
def test_without_a_spread_all_requests_have_the_fitted_hazards(
    first: float, later: float, slope: float, positions: int
) -> None:
    rows = survival(Acceptance(first, later, slope), positions)
    assert rows.shape == (1, positions)
    assert rows[0] == pytest.approx(np.cumprod(hazards(first, later, slope, positions)))


@settings(max_examples=25)
@given(logits, logits, st.floats(-0.3, 0.1), st.floats(0.1, 2), st.integers(1, 8))
def test_pooled_over_steps_requests_that_differ_keep_what_was_fitted(
    first: float, later: float, slope: float, spread: float, positions: int
) -> None:
    """Of requests alike in length, one takes steps in proportion to 1 / τ."""
    rows = survival(Acceptance(first, later, slope, spread), positions)
    assert rows.shape == (KINDS, positions)
    assert (np.diff(rows, axis=1) <= 0).all()
    assert (np.diff(rows, axis=0) >= 0).all()
    steps = 1 / (1 + rows.sum(axis=1))
    pooled = steps @ rows / steps.sum()
    assert pooled == pytest.approx(np.cumprod(hazards(first, later, slope, positions)), rel=1e-3, abs=1e-6)
    # Tokens over steps of all requests together: the length that a fit sees.
    assert KINDS / steps.sum() == pytest.approx(float(expected_length(first, later, slope, positions)), rel=1e-3)
