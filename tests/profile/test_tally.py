"""Rates of added-up steps are those of counting step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.profile.offsets import Steps
from specbench.profile.tally import Tally

GAMMA = 4


def steps(rows: list[tuple[int, int, bool]]) -> Steps:
    """(drafted, accepted, cut): cut steps end the response with their last accepted token."""
    drafted, accepted = (np.array([row[i] for row in rows], np.int64) for i in range(2))
    emitted = np.array([kept + (not cut or not kept) for _, kept, cut in rows], np.int64)
    return Steps(np.arange(len(rows)), emitted, drafted, accepted)


ROWS = st.lists(
    st.tuples(st.integers(0, GAMMA), st.integers(0, GAMMA), st.booleans()).map(lambda r: (r[0], min(r[0], r[1]), r[2])),
    min_size=1,
    max_size=30,
)


@given(rows=ROWS, split=st.integers(0, 30))
def test_rates_are_counted_over_the_steps_that_judged(rows: list[tuple[int, int, bool]], split: int) -> None:
    tally = Tally(GAMMA)
    for part in (rows[:split], rows[split:]):
        if part:
            tally.add(steps(part))
    counts = tally.counts()
    assert (counts.steps, counts.drafts) == (len(rows), sum(d > 0 for d, _, _ in rows))
    assert (counts.drafted, counts.accepted) == (sum(d for d, _, _ in rows), sum(a for _, a, _ in rows))
    rejections = 0
    for k, rate in enumerate(tally.conditional()):
        # A cut step came to its accepted tokens only; another judged one more, if there was one.
        at_risk = [a for d, a, cut in rows if a >= k and (a if cut and a else d) > k]
        rejections += sum(a == k for a in at_risk)
        assert rate == (pytest.approx(sum(a > k for a in at_risk) / len(at_risk)) if at_risk else None)
    judged = counts.accepted + rejections
    assert tally.alpha() == (pytest.approx(counts.accepted / judged) if judged else None)


def test_a_draft_that_was_cut_by_the_end_is_no_rejection() -> None:
    tally = Tally(3)
    tally.add(steps([(3, 1, True)]))
    assert tally.alpha() == 1.0
    assert tally.conditional() == (1.0, None, None)
    assert tally.tokens == 1
