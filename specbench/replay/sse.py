"""Server-sent events, the reading side (WHATWG HTML, section 9.2.6), fed with bytes that may be cut anywhere."""

from __future__ import annotations

import re

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


class SSEParser:
    """Turns pieces of a byte stream into the data of its events; comments and fields other than data are skipped.

    Lines may end in LF, CR or CRLF; several data lines of one event are joined by LF. Text is decoded line by line, so
    a cut inside a character does no harm. An event counts once its blank line has come, never before.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []  # pieces of the line that has not ended yet
        self._data: list[str] = []  # data lines of the event that has not ended yet
        self._after_cr = False
        self._first_line = True

    def feed(self, piece: bytes) -> list[str]:
        """The data of the events that this piece completes, in order."""
        if not piece:
            return []
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]  # the second half of a CRLF that was cut
        self._after_cr = piece.endswith(b"\r")
        *ended, rest = _LINE_END.split(piece)
        events = []
        for end in ended:
            line = b"".join((*self._line, end))
            self._line.clear()
            if (event := self._take(line)) is not None:
                events.append(event)
        self._line.append(rest)
        return events

    def _take(self, line: bytes) -> str | None:
        if self._first_line:
            line = line.removeprefix(_BOM)
            self._first_line = False
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" ").decode(errors="replace"))
            return None
        if not self._data:
            return None
        event = "\n".join(self._data)
        self._data.clear()
        return event
