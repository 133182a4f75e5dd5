"""One impossible token is proof, unless rounding put it on the nucleus' edge."""

from __future__ import annotations

from specbench.equivalence.sampling.observations import Distribution, Draw
from specbench.equivalence.sampling.support import outside, support_test

WHOLE = Distribution((5, 6), (0.7, 0.3), is_whole=True)
PLACE = (0, (1,))


def test_a_token_outside_a_nucleus_that_is_known_whole_is_found() -> None:
    looked_at, found = outside([Draw(0, (1, 5)), Draw(0, (1, 9))], {PLACE: WHOLE}, Draw.stepped)
    assert (looked_at, found) == (2, [(PLACE, 9)])
    assert support_test(looked_at, found, {PLACE: WHOLE}).p == 0.0


def test_a_token_that_a_hair_more_top_p_lets_in_is_rounding() -> None:
    wider = {PLACE: Distribution((5, 6, 9), (0.65, 0.3, 0.05), is_whole=True)}
    looked_at, found = outside([Draw(0, (1, 9))], {PLACE: WHOLE}, Draw.stepped)
    assert support_test(looked_at, found, wider).p == 1.0


def test_where_the_nucleus_is_not_known_whole_nothing_is_said() -> None:
    open_end = {PLACE: Distribution((5, 6), (0.6, 0.4))}  # to the last digit; yet others were not listed
    looked_at, found = outside([Draw(0, (1, 9))], open_end, Draw.stepped)
    assert support_test(looked_at, found, {}).p is None


def test_passing_states_the_leak_that_would_have_been_seen() -> None:
    assert round(support_test(459, [], {}).detectable or 0, 3) == 0.01
