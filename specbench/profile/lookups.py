"""Drafters that need only text, n-gram lookup and suffix decoding, at every position of a response."""

from __future__ import annotations

import numpy as np

from specbench.decoder.lookup import NgramIndex
from specbench.decoder.suffix import SuffixIndex, SuffixMemory, SuffixRule
from specbench.profile.offsets import DraftTable, Transcript

LOOKUPS = ("ngram", "suffix")
"""Methods whose profile needs no model."""


class NgramProfiler:
    """The rule of `decoder.lookup.NgramIndex`, with the lengths that the backends are given."""

    method = "ngram"

    def table(self, transcript: Transcript, gamma: int) -> DraftTable:
        tokens = [*transcript.prompt, *transcript.response]
        begin, size = len(transcript.prompt), len(transcript.response)
        runs, available = [0] * size, [0] * size
        index = NgramIndex()
        index.extend(tokens[: begin + 1])
        for t in range(1, size):
            here = begin + t
            if (match := index.match) is not None:
                available[t] = here - match
                at, end = here, min(here + gamma, len(tokens), 2 * here - match)
                while at < end and tokens[match + at - here] == tokens[at]:
                    at += 1
                runs[t] = at - here
            index.extend(tokens[here : here + 1])
        return DraftTable.of_runs(np.array(runs), gamma, np.array(available))


class SuffixProfiler:
    """The rule of `decoder.suffix.SuffixIndex`. What it proposes depends on how many tokens it may propose.

    cached_requests: how many earlier responses are remembered, in the order of the transcripts; 0 for none
    """

    method = "suffix"

    def __init__(self, cached_requests: int = 0, rule: SuffixRule | None = None) -> None:
        self._rule = rule or SuffixRule()
        self._memory = SuffixMemory(self._rule, cached_requests) if cached_requests else None

    def table(self, transcript: Transcript, gamma: int) -> DraftTable:
        response = list(transcript.response)
        shape = (gamma, len(response))
        drafted, accepted = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        index = SuffixIndex(transcript.prompt, self._rule, self._memory)
        index.extend(response[:1])
        for t in range(1, len(response)):
            for row, draft in enumerate(index.proposals(gamma)):
                if draft:
                    drafted[row, t] = len(draft)
                    accepted[row, t] = _agreeing(draft, response, t)
            index.extend(response[t : t + 1])
        return DraftTable(drafted, accepted)


def _agreeing(draft: list[int], response: list[int], t: int) -> int:
    """How many of the draft's first tokens stand in the response from t on."""
    for place, token in enumerate(draft):
        if t + place == len(response) or response[t + place] != token:
            return place
    return len(draft)
