"""N-gram lookup: what followed when the sequence's last tokens stood there before. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable


class NgramIndex:
    """One sequence's n-grams of min_n..max_n tokens and where each was seen first; extended token by token.

    The rule is vLLM's (`vllm/v1/spec_decode/ngram_proposer.py`): the longest suffix of min_n..max_n tokens that also
    stands somewhere before (the two may overlap) is the match; among several places the earliest counts; the draft is
    the k tokens that follow it, fewer where the sequence ends. The model's maximum length is the caller's business.

    A token costs one dictionary entry per n-gram length, a proposal as many look-ups, however long the sequence is.
    """

    def __init__(self, min_n: int = 2, max_n: int = 4) -> None:
        if not 1 <= min_n <= max_n:
            raise ValueError(f"n-gram lengths must satisfy 1 <= min_n <= max_n; got min_n={min_n}, max_n={max_n}.")
        self._lengths = range(max_n, min_n - 1, -1)
        self._tokens: list[int] = []
        self._first_end: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Iterable[int]) -> None:
        """Append committed tokens (the prompt, then what each step emits)."""
        for token in tokens:
            self._tokens.append(token)
            for suffix in self._suffixes():
                self._first_end.setdefault(suffix, len(self._tokens))

    def propose(self, k: int) -> list[int]:
        """At most k tokens to draft; empty where no suffix stood there before."""
        for suffix in self._suffixes():
            end = self._first_end[suffix]
            if end < len(self._tokens):
                return self._tokens[end : end + k]
        return []

    def _suffixes(self) -> Iterable[tuple[int, ...]]:
        return (tuple(self._tokens[-n:]) for n in self._lengths if n <= len(self._tokens))
