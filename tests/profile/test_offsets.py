"""Walking through offsets gives the steps of a run, whatever the text, the limit and the end."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.decoder.suffix import SuffixIndex, SuffixRule
from specbench.profile.lookups import NgramProfiler, SuffixProfiler
from specbench.profile.offsets import DraftTable, Transcript, walk
from specbench.profile.tally import Tally

TEXT = st.lists(st.integers(0, 2), min_size=1, max_size=40)
GAMMA = 6

Step = tuple[int, int, int]
"""Drafted, accepted, emitted."""


def ngram(tokens: list[int], k: int) -> list[int]:
    """vLLM's rule by search, as `tests/decoder/test_lookup.py` has it."""
    for n in range(4, 1, -1):
        for start in range(len(tokens) - n):
            if tokens[start : start + n] == tokens[-n:]:
                return tokens[start + n : start + n + k]
    return []


def run_plainly(method: str, transcript: Transcript, gamma: int) -> list[Step]:
    """What the engine does: draft within the limit, keep what agrees, add a token, stop at the end."""
    prompt, response = list(transcript.prompt), list(transcript.response)
    steps, t = [], 1
    while t < len(response):
        seen = prompt + response[:t]
        k = gamma if transcript.max_tokens is None else min(gamma, transcript.max_tokens - t - 1)
        draft = ngram(seen, k) if method == "ngram" else SuffixIndex(seen, SuffixRule()).propose(k)
        kept = 0
        while kept < len(draft) and t + kept < len(response) and draft[kept] == response[t + kept]:
            kept += 1
        emitted = min(kept + 1, len(response) - t)
        steps.append((len(draft), kept, emitted))
        t += emitted
    return steps


def walked(table: DraftTable, transcript: Transcript, gamma: int) -> list[Step]:
    steps = walk(table, transcript, gamma)
    return list(zip(steps.drafted.tolist(), steps.accepted.tolist(), steps.emitted.tolist(), strict=True))


@pytest.mark.parametrize("method", ["ngram", "suffix"])
@given(prompt=TEXT, response=TEXT, cut=st.booleans())
def test_it_is_a_run_step_by_step(method: str, prompt: list[int], response: list[int], cut: bool) -> None:
    transcript = Transcript("", prompt, response, len(response) if cut else None)
    table = (NgramProfiler() if method == "ngram" else SuffixProfiler()).table(transcript, GAMMA)
    for gamma in range(1, GAMMA + 1):
        assert walked(table, transcript, gamma) == run_plainly(method, transcript, gamma)


@given(prompt=TEXT, response=TEXT, spare=st.integers(0, 8), method=st.sampled_from([NgramProfiler, SuffixProfiler]))
def test_counts_are_those_that_cannot_be_otherwise(
    prompt: list[int], response: list[int], spare: int, method: type[NgramProfiler | SuffixProfiler]
) -> None:
    transcript = Transcript("", prompt, response, len(response) + spare)
    table = method().table(transcript, GAMMA)
    for gamma in range(1, GAMMA + 1):
        tally, steps = Tally(gamma), walk(table, transcript, gamma)
        tally.add(steps)
        counts = tally.counts()
        assert 0 <= counts.accepted <= counts.drafted <= gamma * counts.steps
        assert tally.tokens == len(response) - 1
        # The last step adds no token of its own where the response ended within what was accepted.
        assert counts.steps + counts.accepted - tally.tokens in (0, 1)
        assert counts.by_position is not None
        assert sum(counts.by_position) == counts.accepted
        if counts.steps:
            assert 1 <= (counts.mean_length() or 0) <= gamma + 1
        assert all(value is None or 0 <= value <= 1 for value in tally.conditional())


@given(right=st.lists(st.booleans(), min_size=2, max_size=60))
def test_for_a_draft_model_more_gamma_never_takes_more_steps(right: list[bool]) -> None:
    """Where its drafts are right from t on does not depend on where the draft began."""
    runs = np.array([next((n for n, ok in enumerate(right[t:]) if not ok), len(right) - t) for t in range(len(right))])
    transcript = Transcript("", [0], right)
    table = DraftTable.of_runs(runs, 8)
    steps = [len(walk(table, transcript, gamma).at) for gamma in range(1, 9)]
    assert steps == sorted(steps, reverse=True)
    # No step can do without a token of the target's own: one for each wrong draft at least.
    assert steps[-1] >= right[1:].count(False)


def a_text_that_repeats_itself(length: int) -> list[int]:
    """Phrases of some words, said again and again, and new words between them: what lookup lives on."""
    chance = random.Random(7)
    phrases = [[chance.randrange(1000) for _ in range(chance.randrange(4, 14))] for _ in range(12)]
    text: list[int] = []
    while len(text) < length:
        text += chance.choice(phrases) if chance.random() < 0.7 else [chance.randrange(1000) for _ in range(3)]
    return text[:length]


def test_a_truncated_histogram_is_biased_and_the_profile_is_not() -> None:
    """measurement.md, section 6: what a run with gamma 7 accepted, cut off at 3, is not what gamma 3 accepts.

    The longer draft has jumped over the places where the shorter one would have begun anew.
    """
    transcript = Transcript("", [1], a_text_that_repeats_itself(4000))
    table = NgramProfiler().table(transcript, 7)
    for gamma in (2, 3, 5):
        truth = run_plainly_fast(transcript, gamma)
        truncated = 1 + np.mean([min(kept, gamma) for _, kept, _ in run_plainly_fast(transcript, 7)])
        actual = 1 + np.mean([kept for _, kept, _ in truth])
        assert walked(table, transcript, gamma) == truth
        assert truncated < 0.95 * actual


def run_plainly_fast(transcript: Transcript, gamma: int) -> list[Step]:
    """As `run_plainly`; each n-gram's first place is looked up, for a long text."""
    tokens = [*transcript.prompt, *transcript.response]
    first: dict[tuple[int, ...], int] = {}
    for end in range(2, len(tokens) + 1):
        for n in range(2, min(4, end) + 1):
            first.setdefault(tuple(tokens[end - n : end]), end)
    steps, t = [], 1
    while t < len(transcript.response):
        here = len(transcript.prompt) + t
        ends = [first[tuple(tokens[here - n : here])] for n in (4, 3, 2) if n <= here]
        place = next((end for end in ends if end < here), here)
        draft = tokens[place : min(place + gamma, here)]
        kept = 0
        while kept < len(draft) and here + kept < len(tokens) and draft[kept] == tokens[here + kept]:
            kept += 1
        emitted = min(kept + 1, len(tokens) - here)
        steps.append((len(draft), kept, emitted))
        t += emitted
    return steps
