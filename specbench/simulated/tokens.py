"""The tokens of the known-truth server: a pure function of prompt and position, so that all outputs are equal."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Any
from zlib import crc32

from specbench.simulated.scenario import Output

VOCABULARY = 32_000
EOS = 2
_FIRST = 16
"""Ids below are special, such as EOS."""

_CHARACTERS_PER_TOKEN = 4

# Of one to four bytes in UTF-8, so that a stream can be cut inside a character.
_WORDS = (
    *("the", "water", "of", "mountain", "and", "seven", "follows", "house", "light", "it", "walks", "under"),
    *("coração", "não", "Übergröße", "naïve", "–", "…", "Ελλάδα", "мир", "日本", "東京", "한국", "🙂", "🧭", "𝛾"),
)


def prompt_tokens(text: str) -> tuple[int, ...]:
    """Token ids of a text: one for every four characters begun."""
    pieces = (text[i : i + _CHARACTERS_PER_TOKEN] for i in range(0, len(text), _CHARACTERS_PER_TOKEN))
    return tuple(_FIRST + crc32(piece.encode()) % (VOCABULARY - _FIRST) for piece in pieces)


def chat_text(messages: Sequence[Mapping[str, Any]]) -> str:
    """Messages through the server's chat template."""
    turns = "".join(f"<|{m.get('role')}|>{m.get('content')}" for m in messages)
    return f"{turns}<|assistant|>"


def token_text(token: int) -> str:
    """What a token decodes to; the end of a sequence to nothing."""
    return "" if token < _FIRST else f" {_WORDS[token % len(_WORDS)]}"


class OutputTokens:
    """The output for a prompt: any token of it, and where it ends.

    seed: of a sampled request; None for greedy decoding
    """

    def __init__(self, prompt: Sequence[int], output: Output, seed: int | None = None) -> None:
        self._key = blake2b(repr((tuple(prompt), seed)).encode(), digest_size=16).digest()
        self._output = output

    @cached_property
    def is_degenerate(self) -> bool:
        loops = self._output.degenerate
        return loops is not None and self._random("degenerate").random() < loops.share

    @cached_property
    def length(self) -> int | None:
        """Tokens until the end of the sequence, its token included; None where it never ends."""
        if not self._output.ends or self.is_degenerate:
            return None
        if not self._output.sigma:
            return self._output.tokens
        deviation = self._random("length").gauss(0.0, self._output.sigma)
        return max(1, round(self._output.tokens * math.exp(deviation)))

    def token(self, position: int, *, ignore_eos: bool = False) -> int:
        """The token at a 0-based position of the output."""
        if self.length is not None and position >= self.length - 1 and not ignore_eos:
            return EOS
        loops = self._output.degenerate
        if loops is not None and self.is_degenerate:
            position %= loops.period
        digest = blake2b(position.to_bytes(8, "little"), key=self._key, digest_size=8).digest()
        return _FIRST + int.from_bytes(digest, "little") % (VOCABULARY - _FIRST)

    def _random(self, purpose: str) -> random.Random:
        return random.Random(f"{self._key.hex()}/{purpose}")
