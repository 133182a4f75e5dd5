"""From what engine passes add to a request, to the events of its stream."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from specbench.simulated.request import Emission

MOST_TOKENS = 16
"""In an event of random size."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tokens of one event; the last one carries the finish reason."""

    tokens: tuple[int, ...]
    finish_reason: str | None = None


class Chunker:
    """Gathers tokens until an event is full, and cuts what is more than one holds (Streaming.tokens_per_event)."""

    def __init__(self, tokens_per_event: Literal["step", "random"] | int, source: random.Random) -> None:
        self._rule, self._source = tokens_per_event, source
        self._held: list[int] = []
        self._size = self._next_size()

    def feed(self, emission: Emission) -> Iterator[Chunk]:
        """The events that this pass fills. The last pass empties what is held."""
        self._held += emission.tokens
        last = emission.finish_reason is not None
        while self._held and (len(self._held) >= self._size or last or self._rule == "step"):
            size = len(self._held) if self._rule == "step" else self._size
            tokens, self._held = tuple(self._held[:size]), self._held[size:]
            self._size = self._next_size()
            yield Chunk(tokens, emission.finish_reason if last and not self._held else None)

    def _next_size(self) -> int:
        match self._rule:
            case int(size):
                return size
            case "random":
                return self._source.randint(1, MOST_TOKENS)
            case _:
                return 1
