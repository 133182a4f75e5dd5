"""Draws and distributions: which tokens are bonus tokens, which probabilities are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.equivalence.sampling.observations import Distribution, Draw


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6), st.integers(0, 4))
def test_a_bonus_token_follows_a_draft_kept_whole_and_nothing_else_is_one(
    wishes: list[tuple[int, int]], cut: int
) -> None:
    steps = [(drafted, min(drafted, accepted)) for drafted, accepted in wishes]
    origin = ["prefill"]
    for drafted, accepted in steps:
        origin += ["draft"] * accepted + ["bonus" if 0 < drafted == accepted else "other"]
    last = steps[-1][1] if steps else 0
    length = len(origin) - min(cut, last)  # the token limit may cut the last step, not more
    draw = Draw(0, tuple(range(length)), tuple(steps))
    assert list(draw.bonuses()) == [i for i, kind in enumerate(origin[:length]) if kind == "bonus"]


def test_steps_that_do_not_add_up_to_the_output_name_no_bonus() -> None:
    """vLLM leaves out steps without a draft: where the others happened is then not known."""
    assert Draw(0, (1, 2, 3, 4, 5), ((2, 1),)).bonuses() == ()
    assert Draw(0, (1, 2, 3), None).bonuses() == ()
    assert Draw(0, (1, 2, 3), ((1, 1),)).bonuses() == (2,)


def test_the_first_token_is_the_prefills_and_is_not_tested() -> None:
    draw = Draw(3, (7, 8, 9))
    assert [draw.place(position) for position in draw.stepped()] == [(3, (7,)), (3, (7, 8))]


def test_tokens_of_probability_zero_are_no_part_of_a_distribution() -> None:
    known = Distribution.from_logprobs({5: math.log(0.75), 9: math.log(0.25), 2: -9999.0}, listed=3)
    assert known.tokens == (5, 9)
    assert known.is_whole
    assert known.cells() == pytest.approx([0.75, 0.25, 0.0])


def test_probabilities_that_sum_to_one_are_not_all_there_is_where_the_list_is_full() -> None:
    """Without top-p every token is possible, however little is left for it."""
    assert not Distribution.from_logprobs({5: math.log(0.75), 9: math.log(0.25)}, listed=2).is_whole


def test_what_the_listed_tokens_lack_is_the_rests() -> None:
    known = Distribution((4, 1), (0.5, 0.3))
    assert not known.is_whole
    assert known.rest == pytest.approx(0.2)
    assert [known.cell(token) for token in (4, 1, 77)] == [0, 1, 2]
    assert known.entropy == pytest.approx(-sum(p * np.log(p) for p in (0.5, 0.3, 0.2)))
