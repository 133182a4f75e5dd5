"""From events to writes: joined, cut anywhere, with comments in between. No byte is lost, none is added to an event."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from specbench.simulated.scenario import Streaming

COMMENT = b": keep-alive"
_LINE_ENDS = {"lf": b"\n", "crlf": b"\r\n", "cr": b"\r"}
_MOST_PIECES = 5


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes for the socket. events: token counts of the events whose last byte is among them"""

    data: bytes
    events: tuple[int, ...]


class ByteStream:
    """Takes encoded events in order, gives writes (Streaming.bytes)."""

    def __init__(self, streaming: Streaming, source: random.Random) -> None:
        self._streaming, self._source = streaming, source
        self._end = _LINE_ENDS[streaming.line_end]
        self._buffer = bytearray()
        self._ends: deque[tuple[int, int]] = deque()  # where each event ends in the buffer, and its tokens
        self._wanted = self._next_merge()

    def feed(self, event: bytes, tokens: int) -> Iterator[Write]:
        """event: as `wire.sse` encodes it, ended by two line feeds"""
        if self._source.random() < self._streaming.keep_alive:
            self._buffer += COMMENT + self._end * 2
        self._buffer += event.removesuffix(b"\n\n") + self._end * 2
        self._ends.append((len(self._buffer), tokens))
        match self._streaming.bytes:
            case "event":
                yield self._cut(len(self._buffer))
            case "split":
                for size in self._pieces():
                    yield self._cut(size)
            case "merged":
                if len(self._ends) >= self._wanted:
                    self._wanted = self._next_merge()
                    yield self._cut(len(self._buffer))
            case "anywhere":
                while (size := self._source.randint(1, 2 * len(event))) <= len(self._buffer):
                    yield self._cut(size)

    def flush(self) -> Iterator[Write]:
        """What is left."""
        if self._buffer:
            yield self._cut(len(self._buffer))

    def _cut(self, size: int) -> Write:
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        done = []
        while self._ends and self._ends[0][0] <= size:
            done.append(self._ends.popleft()[1])
        self._ends = deque((end - size, tokens) for end, tokens in self._ends)
        return Write(data, tuple(done))

    def _pieces(self) -> list[int]:
        """Sizes that add up to the buffer's."""
        total = len(self._buffer)
        count = min(total, self._source.randint(2, _MOST_PIECES))
        cuts = [0, *sorted(self._source.sample(range(1, total), count - 1)), total]
        return [end - begin for begin, end in pairwise(cuts)]

    def _next_merge(self) -> int:
        return self._source.randint(2, 4)
