"""Sessions are conversations, not everybody behind one system prompt."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from specbench.workloads.traces.sessions import SessionNumbers, block_sessions, first_blocks


def sessions(*lists: list[int]) -> list[int]:
    return block_sessions(first_blocks(lists, 8)).tolist()


def test_a_conversation_goes_on_from_its_own_blocks() -> None:
    a, b, again, alone = sessions([1, 2], [5, 6], [1, 2, 3], [])
    assert a == again
    assert len({a, b, alone}) == 3


def test_a_system_prompt_that_all_share_tells_nothing() -> None:
    talks = [[0, 1, 10 + i % 150, 900 + i] for i in range(600)]
    found = sessions(*talks, [0], [0, 1])
    assert len(set(found[:600])) == 150
    assert [found[i] == found[i + 150] for i in range(300)] == [True] * 300
    assert len(set(found)) == 152


@given(st.lists(st.lists(st.integers(0, 9), max_size=10), max_size=30))
def test_every_request_has_a_session_and_the_same_blocks_are_one(lists) -> None:
    found = block_sessions(first_blocks(lists, 8))
    assert found.shape == (len(lists),)
    assert found.dtype == np.int64
    for i, one in enumerate(lists):
        for j, other in enumerate(lists[:i]):
            if one and one[:8] == other[:8]:
                assert found[i] == found[j]


def test_a_request_without_an_id_is_a_session_of_its_own() -> None:
    numbers = SessionNumbers()
    assert numbers.of(["a", None, "b", float("nan"), "a"]) == [0, 1, 2, 3, 0]
    assert numbers.of([None, "b"]) == [4, 2]
