"""From passes to events to writes: nothing is lost, nothing invented, whatever the cutting."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from specbench.replay.sse import SSEParser
from specbench.simulated.byte_stream import ByteStream
from specbench.simulated.chunking import Chunker
from specbench.simulated.request import Emission
from specbench.simulated.scenario import Streaming
from specbench.wire import sse

RULES = st.one_of(st.sampled_from(["step", "random"]), st.integers(1, 20))
STREAMINGS = st.builds(
    Streaming,
    tokens_per_event=RULES,
    bytes=st.sampled_from(["event", "split", "merged", "anywhere"]),
    keep_alive=st.sampled_from([0.0, 0.5, 1.0]),
    line_end=st.sampled_from(["lf", "crlf", "cr"]),
)


@given(rule=RULES, passes=st.lists(st.integers(1, 9), min_size=1, max_size=30), seed=st.integers(0, 99))
def test_every_token_is_in_one_event_and_the_last_event_says_why_it_ended(
    rule: str | int, passes: list[int], seed: int
) -> None:
    chunker, numbers, chunks = Chunker(rule, random.Random(seed)), iter(range(10_000)), []
    for place, size in enumerate(passes):
        tokens = tuple(next(numbers) for _ in range(size))
        chunks += chunker.feed(Emission(tokens, None, "stop" if place == len(passes) - 1 else None))
    assert [t for chunk in chunks for t in chunk.tokens] == list(range(sum(passes)))
    assert [chunk.finish_reason for chunk in chunks] == [None] * (len(chunks) - 1) + ["stop"]
    sizes = [len(chunk.tokens) for chunk in chunks]
    if rule == "step":
        assert sizes == passes
    else:
        assert max(sizes) <= (16 if rule == "random" else rule)


@given(streaming=STREAMINGS, texts=st.lists(st.text(max_size=20), max_size=12), seed=st.integers(0, 99))
def test_writes_hold_the_events_in_order_and_say_which_they_complete(
    streaming: Streaming, texts: list[str], seed: int
) -> None:
    stream, parser = ByteStream(streaming, random.Random(seed)), SSEParser()
    events = [sse.event({"text": text}) for text in texts]
    writes = [w for place, event in enumerate(events) for w in stream.feed(event, place)]
    writes += stream.flush()
    seen: list[str] = []
    for write in writes:
        complete = parser.feed(write.data)
        seen += complete
        # A lone CR may be half of a CRLF, so the parser may know an event one write earlier, never later.
        assert len(complete) >= len(write.events) or streaming.line_end == "crlf"
    assert seen == [event.decode().removeprefix("data: ").strip("\n") for event in events]
    assert [number for write in writes for number in write.events] == list(range(len(texts)))
