"""N-gram lookup: what followed when the sequence's last tokens stood there before. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable


class NgramIndex:
    """One sequence's n-grams of min_n..max_n tokens and where each was seen first; extended token by token.

    The rule is vLLM's (`vllm/v1/spec_decode/ngram_proposer.py`): the longest suffix of min_n..max_n tokens that also
    stands somewhere before (the two may overlap) is the match; among several places the earliest counts; the draft is
    the k tokens that follow it, fewer where the sequence ends. The model's maximum length is the caller's business.

    A token costs one dictionary entry per n-gram length, a proposal nothing, however long the sequence is.
    """

    def __init__(self, min_n: int = 2, max_n: int = 4) -> None:
        if not 1 <= min_n <= max_n:
            raise ValueError(f"n-gram lengths must satisfy 1 <= min_n <= max_n; got min_n={min_n}, max_n={max_n}.")
        self._lengths = range(max_n, min_n - 1, -1)
        self._tokens: list[int] = []
        self._first_end: dict[tuple[int, ...], int] = {}
        self.match: int | None = None
        """Where what followed the match begins, counted in tokens; None where no suffix stood there before."""

    def extend(self, tokens: Iterable[int]) -> None:
        """Append committed tokens (the prompt, then what each step emits)."""
        known, first_end, lengths = self._tokens, self._first_end, self._lengths
        for token in tokens:
            known.append(token)
            length = len(known)
            self.match = None
            for n in lengths:
                if n > length:
                    continue
                end = first_end.setdefault(tuple(known[-n:]), length)
                if end != length and self.match is None:
                    self.match = end

    def propose(self, k: int) -> list[int]:
        """At most k tokens to draft; empty where no suffix stood there before."""
        return [] if self.match is None else self._tokens[self.match : self.match + k]
