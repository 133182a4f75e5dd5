"""From token ids to text as they come: whole characters only, and nothing of or after a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

REPLACEMENT = "\ufffd"
"""What the bytes of an unfinished character decode to."""


class TextStream:
    """The text of one output. `push` takes each token; `take` gives the text that is settled since the last `take`.

    Text that may turn out to be the beginning of a stop string is held back. All that was taken, joined, is the decoded
    output up to the stop string.
    """

    def __init__(self, tokenizer: Tokenizer, stop: Sequence[str] = ()) -> None:
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._ids: list[int] = []
        # Only ids[_prefix:] are decoded again with each token. ids[_prefix:_read] are there as context, since the first
        # token of a text may decode without its space; of what all of them decode to, _known characters are in _text.
        self._prefix = self._read = self._known = 0
        self._text = ""
        self._taken = 0
        self.stopped = False

    def push(self, token: int) -> bool:
        """Add a token. True when the text now holds a stop string, so that the output ends with this token."""
        self._ids.append(token)
        self._decode(final=False)
        return self.stopped

    def take(self, *, final: bool = False) -> str:
        """Text that nothing to come can change. `final`: nothing will come, so what was held back is given too."""
        if final:
            self._decode(final=True)
        settled = self._text[self._taken : None if final or self.stopped else len(self._text) - self._held_back()]
        self._taken += len(settled)
        return settled

    def _decode(self, *, final: bool) -> None:
        if self.stopped:
            return
        text = self._tokenizer.decode(self._ids[self._prefix :])
        settled = text if final else text.rstrip(REPLACEMENT)
        self._append(settled[self._known :])
        if settled == text and len(text) > self._known:
            self._prefix, self._read = self._read, len(self._ids)
            self._known = len(self._tokenizer.decode(self._ids[self._prefix :]))
        else:
            self._known = max(self._known, len(settled))

    def _append(self, new: str) -> None:
        searched_from = max(0, len(self._text) - max(map(len, self._stop), default=1) + 1)
        self._text += new
        found = [at for stop in self._stop if (at := self._text.find(stop, searched_from)) >= 0]
        if found:
            self._text, self.stopped = self._text[: min(found)], True

    def _held_back(self) -> int:
        """Length of the longest end of the text that a stop string begins with."""
        return max(
            (n for stop in self._stop for n in range(1, len(stop)) if self._text.endswith(stop[:n])),
            default=0,
        )
