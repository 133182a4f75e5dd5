from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.decoder.lookup import NgramIndex


def propose_naively(tokens: list[int], k: int, min_n: int, max_n: int) -> list[int]:
    for n in range(max_n, min_n - 1, -1):
        for start in range(len(tokens) - n):
            if tokens[start : start + n] == tokens[-n:]:
                return tokens[start + n : start + n + k]
    return []


@given(
    tokens=st.lists(st.integers(0, 3), max_size=40),
    k=st.integers(0, 6),
    lengths=st.tuples(st.integers(1, 5), st.integers(1, 5)).map(sorted),
)
@settings(deadline=None)
def test_every_proposal_is_the_naive_search_s(tokens: list[int], k: int, lengths: list[int]) -> None:
    min_n, max_n = lengths
    index = NgramIndex(min_n, max_n)
    for end, token in enumerate(tokens, start=1):
        index.extend([token])
        assert index.propose(k) == propose_naively(tokens[:end], k, min_n, max_n)


@given(tokens=st.lists(st.integers(0, 3), max_size=30), cut=st.integers(0, 30))
@settings(deadline=None)
def test_how_the_tokens_arrive_makes_no_difference(tokens: list[int], cut: int) -> None:
    at_once, in_parts = NgramIndex(), NgramIndex()
    at_once.extend(tokens)
    in_parts.extend(tokens[:cut])
    in_parts.extend(tokens[cut:])
    assert at_once.propose(5) == in_parts.propose(5)


def test_a_draft_ends_where_the_sequence_does() -> None:
    # The example in vLLM's own documentation of its proposer.
    index = NgramIndex(min_n=2, max_n=3)
    index.extend([1, 2, 3, 4, 2, 3])
    assert index.propose(4) == [4, 2, 3]


def test_the_longest_match_wins_over_an_earlier_shorter_one() -> None:
    index = NgramIndex(min_n=1, max_n=3)
    index.extend([2, 3, 8, 1, 2, 3, 9, 1, 2, 3])
    assert index.propose(1) == [9]


def test_the_earliest_of_equal_matches_wins() -> None:
    index = NgramIndex(min_n=2, max_n=2)
    index.extend([1, 2, 8, 1, 2, 9, 1, 2])
    assert index.propose(1) == [8]


def test_a_match_may_overlap_the_suffix() -> None:
    index = NgramIndex(min_n=2, max_n=3)
    index.extend([7, 7, 7, 7])
    assert index.propose(4) == [7]


@pytest.mark.parametrize("tokens", [[], [1], [1, 2, 3, 4]], ids=["empty", "one token", "no repeat"])
def test_nothing_is_proposed_where_no_suffix_stood_before(tokens: list[int]) -> None:
    index = NgramIndex()
    index.extend(tokens)
    assert index.propose(4) == []


@pytest.mark.parametrize(("min_n", "max_n"), [(0, 3), (3, 2)])
def test_impossible_lengths_are_refused(min_n: int, max_n: int) -> None:
    with pytest.raises(ValueError, match=f"1 <= min_n <= max_n; got min_n={min_n}, max_n={max_n}"):
        NgramIndex(min_n, max_n)


def test_lookup_imports_without_torch() -> None:
    code = "import sys, specbench.decoder.lookup; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
