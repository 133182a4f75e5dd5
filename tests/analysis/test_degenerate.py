"""Loops and empty outputs are told from honest repetition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from known_run import request

from specbench.analysis.degenerate import LONGEST_PERIOD, degeneracy, ends_in_loop, was_truncated


@given(
    st.lists(st.integers(0, 50), max_size=30),
    st.lists(st.integers(0, 50), min_size=1, max_size=LONGEST_PERIOD),
    st.integers(24, 300),
)
def test_a_tail_of_one_repeated_ngram_is_a_loop_wherever_it_breaks_off(
    head: list[int], ngram: list[int], length: int
) -> None:
    tail = (ngram * (1 + length // len(ngram)))[: max(length, 4 * len(ngram))]
    tail += (ngram * 4)[: max(0, 4 * len(ngram) - len(tail))]
    assert ends_in_loop(head + tail)


@given(st.lists(st.integers(), unique=True, max_size=300))
def test_tokens_that_never_come_again_are_no_loop(tokens: list[int]) -> None:
    assert not ends_in_loop(tokens)


@pytest.mark.parametrize(
    "tail",
    [[5] * 12, [5, 6] * 8, [*range(40)] * 3, [5] * 60 + [6]],
    ids=["a ruler", "ha ha ha", "three long repeats", "a loop that was left"],
)
def test_short_or_ended_repetition_is_no_loop(tail: list[int]) -> None:
    assert not ends_in_loop([1, 2, 3, *tail])


def test_a_request_is_judged_by_ids_or_else_by_words() -> None:
    assert degeneracy(request(token_ids=(1, 2, *[7, 8] * 20))) == "loop"
    words = request(output_tokens=60, text="so " + "it is " * 30)
    assert degeneracy(request(output_tokens=60, text=words.text)) is None  # its ids do not repeat
    without_ids = {f: getattr(words, f) for f in words.__dataclass_fields__} | {"token_ids": None}
    assert degeneracy(type(words)(**without_ids)) == "loop"


def test_no_text_is_empty_and_a_failed_request_is_neither() -> None:
    assert degeneracy(request(text="  \n")) == "empty"
    assert degeneracy(request(output_tokens=0)) == "empty"
    assert degeneracy(request(output_tokens=0, error="connection reset")) is None


def test_the_token_limit_is_noted_and_nothing_more() -> None:
    assert was_truncated(request(finish_reason="length"))
    assert not was_truncated(request(finish_reason="stop"))
    assert degeneracy(request(finish_reason="length")) is None
