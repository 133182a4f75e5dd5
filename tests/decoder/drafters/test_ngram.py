"""N-gram lookup proposes from each request's own text, prompt and output alike."""

from __future__ import annotations

import torch

from specbench.decoder import noise
from specbench.decoder.batch import Batch
from specbench.decoder.drafters.ngram import NgramDrafter
from specbench.decoder.request import Request, SequenceState
from specbench.decoder.sampling import SamplingParams

CPU = torch.device("cpu")


def sequence(tokens: list[int]) -> SequenceState:
    return SequenceState(Request("", tokens, SamplingParams()), frozenset(), 64, list(tokens))


def propose(drafter: NgramDrafter, rows: list[SequenceState | None], limits: list[int]) -> list[list[int]]:
    return drafter.propose(Batch.of(rows, noise.DRAFT, CPU), limits).tokens.tolist()


def test_it_follows_the_text_as_it_grows() -> None:
    drafter, state = NgramDrafter(), sequence([1, 2, 3, 4])
    drafter.prefill(0, state, None)
    assert propose(drafter, [state], [3]) == [[]]
    state.tokens += [1, 2]
    assert propose(drafter, [state], [3]) == [[3, 4, 1]]
    state.tokens += [3, 9, 2, 3]
    # Three tokens that stood there before count for more than two.
    assert propose(drafter, [state], [2]) == [[4, 1]]
    state.tokens += [9]
    assert propose(drafter, [state], [2]) == [[2, 3]]


def test_the_longest_proposal_sets_the_width_and_the_others_are_filled_up() -> None:
    drafter = NgramDrafter()
    rows = [sequence([1, 2, 3, 1, 2]), sequence([7, 8, 9]), sequence([5, 6, 4, 5, 6])]
    for row, state in enumerate(rows):
        drafter.prefill(row, state, None)
    assert propose(drafter, [rows[0], None, rows[2]], [3, 0, 1]) == [[3, 1, 2], [-1, -1, -1], [4, -1, -1]]


def test_a_row_is_reused_without_a_trace_of_who_was_there() -> None:
    drafter = NgramDrafter()
    drafter.prefill(0, sequence([1, 2, 3]), None)
    drafter.release(0)
    state = sequence([4, 1, 2])
    drafter.prefill(0, state, None)
    assert propose(drafter, [state], [3]) == [[]]
