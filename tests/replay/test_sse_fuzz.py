"""Whatever a proxy does to the bytes: no token lost, none invented, the text byte for byte."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.replay.dialect import VLLM
from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.transcript import Transcript

SPEC = RequestSpec(index=0, prompt_id="p", max_tokens=64, prompt="Olá")

# Everything that JSON may hold, line separators that are none to SSE among it.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("\n\r\u2028\u2029\x85☀️🏳️‍🌈é\ufeff"), max_size=12
)
TOKENS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=16)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
GARBAGE = st.binary(max_size=24).map(lambda line: b"x" + line.replace(b"\r", b"").replace(b"\n", b""))
NOISE = st.one_of(
    st.just(b": keep-alive"), st.just(b"event: ping"), st.just(b"retry: 3"), st.just(b"dat"), st.just(b""), GARBAGE
)


@st.composite
def answers(draw: st.DrawFn) -> tuple[list[tuple[list[int], str]], bytes]:
    """Steps of one answer (ids and text of each), and the bytes of its stream: noise in between, any line end."""
    steps = draw(st.lists(st.tuples(TOKENS, TEXTS), min_size=1, max_size=8))
    written, total = b"\xef\xbb\xbf" if draw(st.booleans()) else b"", 0
    for number, (ids, text) in enumerate(steps):
        total += len(ids)
        choice = {"text": text, "token_ids": ids, "finish_reason": "stop" if number == len(steps) - 1 else None}
        body = json.dumps(
            {"choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": total}},
            ensure_ascii=draw(st.booleans()),
        ).encode()
        # A CR would swallow the LF that begins a line after it, so that one line end serves a whole event.
        end = draw(LINE_ENDS)
        for noise in draw(st.lists(NOISE, max_size=3)):
            written += noise + end
        written += (b"data: " if draw(st.booleans()) else b"data:") + body + end + end
    end = draw(LINE_ENDS)
    return steps, written + b"data: [DONE]" + end + end


@st.composite
def cut(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes in pieces: as one, as single bytes, or cut anywhere, in the middle of characters too."""
    places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=40)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def read(pieces: list[bytes]) -> RequestTrace:
    transcript = Transcript(VLLM)
    for time, piece in enumerate(pieces, start=1):
        transcript.feed(piece, float(time))
    return transcript.trace(SPEC, scheduled=0.0, sent=0.0, finished=float(len(pieces)))


def check(trace: RequestTrace, steps: list[tuple[list[int], str]]) -> None:
    ids = tuple(token for step, _ in steps for token in step)
    assert trace.error is None
    assert trace.token_ids == ids
    assert trace.output_tokens == sum(trace.chunk_tokens) == len(ids)
    assert trace.chunk_tokens == tuple(len(step) for step, _ in steps)
    assert trace.text == "".join(text for _, text in steps)
    assert list(trace.chunk_times) == sorted(trace.chunk_times)


@settings(max_examples=200)
@given(answers(), st.data())
def test_an_answer_survives_any_cutting(answer: tuple[list[tuple[list[int], str]], bytes], data: st.DataObject) -> None:
    steps, written = answer
    check(read(data.draw(cut(written))), steps)


@settings(max_examples=50)
@given(answers())
def test_an_answer_survives_byte_by_byte(answer: tuple[list[tuple[list[int], str]], bytes]) -> None:
    steps, written = answer
    check(read([bytes([byte]) for byte in written]), steps)


@settings(max_examples=50)
@given(answers(), st.binary(max_size=40))
def test_a_broken_event_fails_the_request_and_loses_no_token(
    answer: tuple[list[tuple[list[int], str]], bytes], garbage: bytes
) -> None:
    """An event that is no JSON is an error, named; what came around it still counts."""
    steps, written = answer
    line = b"data: {" + garbage.replace(b"\r", b"").replace(b"\n", b"") + b"\n\n"
    trace = read([line, written]) if not written.startswith(b"\xef\xbb\xbf") else read([written, line])
    assert trace.error is not None
    assert trace.token_ids == tuple(token for step, _ in steps for token in step)
    assert trace.text == "".join(text for _, text in steps)


@settings(max_examples=100)
@given(answers(), st.data())
def test_an_answer_that_breaks_off_holds_what_had_come(
    answer: tuple[list[tuple[list[int], str]], bytes], data: st.DataObject
) -> None:
    steps, written = answer
    end = data.draw(st.integers(0, len(written)))
    trace = read([written[:end]])
    ids = [token for step, _ in steps for token in step]
    got = list(trace.token_ids or ())
    assert got == ids[: len(got)]
    assert "".join(text for _, text in steps).startswith(trace.text)
