"""Text leaves in whole characters, byte for byte what the whole output decodes to, and ends before a stop string."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from specbench.decoder.text import REPLACEMENT, TextStream

TEXTS = st.text(st.characters(codec="utf-8") | st.sampled_from("abé€𝄞"), max_size=30)


@pytest.fixture(scope="module")
def byte_level(target: Path) -> Tokenizer:
    """One token per byte."""
    return Tokenizer.from_file(str(target / "tokenizer.json"))


@pytest.fixture(scope="module")
def real(demo_target: Path) -> Tokenizer:
    return Tokenizer.from_file(str(demo_target / "tokenizer.json"))


def steps(data: st.DataObject, ids: list[int]) -> list[list[int]]:
    """Cut an output into steps of one token or more."""
    cuts = data.draw(st.lists(st.integers(0, len(ids)), max_size=len(ids)).map(lambda at: sorted({0, len(ids), *at})))
    return [ids[start:end] for start, end in pairwise(cuts)]


def run(stream: TextStream, cut: list[list[int]]) -> list[str]:
    """What each step gives to the client, as the engine drives it."""
    given: list[str] = []
    for index, ids in enumerate(cut):
        stopped = any(stream.push(token) for token in ids)
        given.append(stream.take(final=stopped or index == len(cut) - 1))
        if stopped:
            break
    return given


@given(text=TEXTS, data=st.data())
def test_pieces_joined_are_the_text_and_none_holds_half_a_character(
    byte_level: Tokenizer, text: str, data: st.DataObject
) -> None:
    pieces = run(TextStream(byte_level), steps(data, byte_level.encode(text).ids))
    assert "".join(pieces) == text
    assert all(REPLACEMENT not in piece for piece in pieces) or REPLACEMENT in text


@given(ids=st.lists(st.integers(0, 257), max_size=40), data=st.data())
def test_any_bytes_and_special_tokens_come_out_as_the_whole_output_decodes(
    byte_level: Tokenizer, ids: list[int], data: st.DataObject
) -> None:
    assert "".join(run(TextStream(byte_level), steps(data, ids))) == byte_level.decode(ids)


@given(data=st.data())
def test_a_real_tokenizer_too(real: Tokenizer, data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, real.get_vocab_size() - 1), max_size=20))
    assert "".join(run(TextStream(real), steps(data, ids))) == real.decode(ids)


@given(
    text=st.text("ab#é", max_size=30),
    stop=st.lists(st.text("ab#é", min_size=1, max_size=4), min_size=1, max_size=3),
    data=st.data(),
)
def test_nothing_of_a_stop_string_or_after_it_leaves(
    byte_level: Tokenizer, text: str, stop: list[str], data: st.DataObject
) -> None:
    ids = byte_level.encode(text).ids
    stream = TextStream(byte_level, stop)
    pieces = run(stream, steps(data, ids))
    # The output ends with the first token that completes one of them.
    ends = [end for end in range(len(text) + 1) if any(text[:end].endswith(s) for s in stop)]
    expected = text
    if ends:
        expected = text[: min(text.find(s) for s in stop if text[: ends[0]].endswith(s))]
    assert stream.stopped == bool(ends)
    assert "".join(pieces) == expected


def test_a_possible_beginning_of_a_stop_string_waits_for_its_next_character(byte_level: Tokenizer) -> None:
    stream = TextStream(byte_level, ["END"])
    given = []
    for token in byte_level.encode("an ENsemble").ids:
        stream.push(token)
        given.append(stream.take())
    assert given == ["a", "n", " ", "", "", "ENs", "e", "m", "b", "l", "e"]
