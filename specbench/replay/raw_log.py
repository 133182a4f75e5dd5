"""The raw event log: every byte that servers streamed, with its arrival time, so that figures can be made anew."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from specbench.errors import SpecbenchError


@dataclass(frozen=True, slots=True)
class RawEvent:
    """A piece of the body of request `index` that arrived at `time` (seconds on the clock of the traces)."""

    index: int
    time: float
    data: bytes


class RawLog:
    """Writes JSON Lines [index, time, text]. Bytes that are no UTF-8 (a cut character) survive as lone surrogates."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="ascii")

    def write(self, event: RawEvent) -> None:
        text = event.data.decode("utf-8", "surrogateescape")
        try:
            self._file.write(json.dumps([event.index, event.time, text], separators=(",", ":")) + "\n")
        except OSError as error:  # a full disk here is not the server's fault
            raise SpecbenchError(f"cannot write the raw events: {error.strerror}.") from error

    def __enter__(self) -> RawLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def read_raw_log(path: Path) -> Iterator[RawEvent]:
    """The events of a log: request by request as these ended, each in the order in which they arrived."""
    with path.open(encoding="ascii") as lines:
        for line in lines:
            index, time, text = json.loads(line)
            yield RawEvent(index, time, text.encode("utf-8", "surrogateescape"))
