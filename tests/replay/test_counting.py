from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.replay.counting import StreamedChunk, UncountableStream, tokens_per_chunk


def chunk(
    text: str = "", ids: tuple[int, ...] | None = None, total: int | None = None, has_choice: bool = True
) -> StreamedChunk:
    return StreamedChunk(time=0.0, token_ids=ids, completion_tokens=total, text=text, has_choice=has_choice)


def closing(total: int) -> StreamedChunk:
    return chunk(total=total, has_choice=False)


def test_token_ids_count_even_where_the_text_is_held_back():
    assert tokens_per_chunk([chunk("", (1, 2)), chunk("☀", (3,)), closing(3)]) == [2, 1, 0]


def test_without_ids_continuous_usage_counts():
    assert tokens_per_chunk([chunk("a", total=1), chunk("b c d", total=5), closing(5)]) == [1, 4, 0]


def test_tokens_of_chunks_without_usage_count_where_usage_first_tells():
    assert tokens_per_chunk([chunk("a"), chunk("b", total=5), closing(6)]) == [0, 5, 1]


def test_with_the_closing_usage_alone_longer_texts_get_more_tokens():
    assert tokens_per_chunk([chunk(""), chunk("ab"), chunk("abcdefgh"), closing(7)]) == [0, 2, 5, 0]


def test_an_event_is_never_taken_for_a_token():
    counts = tokens_per_chunk([chunk("a"), chunk("b"), closing(10)])
    assert sum(counts) == 10


def test_text_without_ids_and_usage_cannot_be_counted():
    with pytest.raises(UncountableStream):
        tokens_per_chunk([chunk("a"), chunk("b")])


def test_a_stream_without_text_has_no_tokens():
    assert tokens_per_chunk([chunk()]) == [0]
    assert tokens_per_chunk([]) == []


@given(st.lists(st.text(max_size=6), min_size=1, max_size=12), st.integers(0, 60))
def test_spreading_the_closing_usage_keeps_the_total_and_starves_no_text(texts: list[str], total: int):
    counts = tokens_per_chunk([*(chunk(text) for text in texts), closing(total)])
    assert sum(counts) == total
    assert min(counts) >= 0
    carriers = [count for text, count in zip(texts, counts[:-1], strict=True) if text]
    if total >= len(carriers):
        assert all(count >= 1 for count in carriers)


@given(st.lists(st.integers(0, 9), min_size=1))
def test_continuous_usage_gives_each_chunk_its_own(sizes: list[int]):
    totals = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    assert tokens_per_chunk([*(chunk("x", total=t) for t in totals), closing(totals[-1])]) == [*sizes, 0]
