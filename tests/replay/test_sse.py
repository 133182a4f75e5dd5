from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.replay.sse import SSEParser

LINES = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8)
EVENTS = st.lists(st.lists(LINES, min_size=1, max_size=3).map("\n".join), max_size=6)
LINE_ENDS = st.sampled_from(["\n", "\r", "\r\n"])


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[str], bytes]:
    """Events, and one of the many ways in which a server may write them."""
    events = draw(EVENTS)
    written = "\ufeff" * draw(st.booleans())
    for event in events:
        end = draw(LINE_ENDS)
        noise = [f": {draw(LINES)}", "event: message", "id: 7", "retry: 10", "nonsense", ""]
        before = draw(st.lists(st.sampled_from(noise), max_size=2))
        data = [
            f"data:{' ' if line.startswith(' ') or draw(st.booleans()) else ''}{line}" for line in event.split("\n")
        ]
        # A CR would swallow the LF of a bare-LF line that follows it, so that one line end serves a whole event.
        written += end.join([*before, *data, "", ""])
    return events, written.encode()


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in pieces, empty ones included."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=10)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def read(pieces: list[bytes]) -> list[str]:
    parser = SSEParser()
    return [event for piece in pieces for event in parser.feed(piece)]


@settings(deadline=None)
@given(streams(), st.data())
def test_no_event_is_lost_or_invented_however_the_bytes_are_cut(stream: tuple[list[str], bytes], data: st.DataObject):
    events, written = stream
    assert read(data.draw(cut(written))) == events


@given(streams())
def test_one_byte_at_a_time(stream: tuple[list[str], bytes]):
    events, written = stream
    assert read([bytes([byte]) for byte in written]) == events


@settings(deadline=None)
@given(st.binary(max_size=200), st.data())
def test_garbage_reads_the_same_however_it_is_cut(garbage: bytes, data: st.DataObject):
    assert read(data.draw(cut(garbage))) == read([garbage])


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data:a\r\n\r\ndata:  b\r\r", ["a", " b"]),
        (b"data: one\ndata: two\n\n", ["one\ntwo"]),
        (b"data\n\ndata:\n\n", ["", ""]),
        (b": keep-alive\n\n\n\ndata: a\n\n", ["a"]),
        (b"event: ping\n\ndata: a\n\n", ["a"]),
        (b"data: a\ndata: b\n", []),
        ("data: olá ☀️\n\n".encode(), ["olá ☀️"]),
        (b"data: \xff\n\n", ["\ufffd"]),
    ],
)
def test_examples_of_the_standard(stream: bytes, events: list[str]):
    assert read([stream]) == events


def test_a_crlf_cut_in_two_is_one_line_end():
    parser = SSEParser()
    assert parser.feed(b"data: a\r") == []
    assert parser.feed(b"\n") == []
    assert parser.feed(b"\r\n") == ["a"]


def test_a_cr_ends_an_event_without_waiting_for_a_line_feed():
    assert SSEParser().feed(b"data: a\r\n\r") == ["a"]
