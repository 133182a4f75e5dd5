"""A draft model proposes its own most likely continuation, however far behind the text its cache is."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from specbench.decoder import noise
from specbench.decoder.batch import Batch
from specbench.decoder.drafters import draft_model
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.load import load_engine
from specbench.decoder.models.llama import Llama
from specbench.decoder.request import Request, SequenceState
from specbench.decoder.sampling import SamplingParams

CPU = torch.device("cpu")
GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture
def drafter(pruned: Path) -> DraftModel:
    return DraftModel(Llama.from_directory(pruned, torch.float32, CPU), rows=3, slots=64)


@pytest.fixture
def oracle(pruned: Path) -> LlamaForCausalLM:
    return LlamaForCausalLM.from_pretrained(pruned)


def sequence(tokens: list[int], params: SamplingParams = GREEDY) -> SequenceState:
    return SequenceState(Request("", tokens, params), frozenset(), 64, list(tokens))


@torch.inference_mode()
def continuation(oracle: LlamaForCausalLM, tokens: list[int], count: int) -> list[int]:
    text = list(tokens)
    for _ in range(count):
        text.append(int(oracle(torch.tensor([text])).logits[0, -1].argmax()))
    return text[len(tokens) :]


def step(drafter: DraftModel, rows: list[SequenceState | None], limits: list[int]) -> list[list[int]]:
    batch = Batch.of(rows, noise.DRAFT, CPU)
    with torch.inference_mode():
        return drafter.propose(batch, limits).tokens.tolist()


@torch.inference_mode()
def test_it_catches_up_after_any_history(drafter: DraftModel, oracle: LlamaForCausalLM) -> None:
    rows = [sequence([5, 6, 7, 8, 9]), sequence([1]), sequence([30, 31, 30, 31])]
    for row, state in enumerate(rows):
        drafter.prefill(row, state, None)
        state.tokens.append(40 + row)
    # Per step: what the target kept of each draft and the token it added; None = a step in which nobody drafted.
    history: list[tuple[list[int], list[int]] | None] = [
        ([3, 0, 1], [50, 51, 52]),
        None,
        None,
        ([0, 3, 2], [60, 61, 62]),
    ]
    for event in history:
        if event is None:
            for state in rows:
                state.tokens.append(77)
            drafter.observe(Batch.of(rows, noise.DRAFT, CPU), [0, 0, 0], None)
            continue
        drafts = step(drafter, [*rows], [3, 3, 3])
        assert drafts == [continuation(oracle, state.tokens, 3) for state in rows]
        kept, added = event
        drafter.observe(Batch.of(rows, noise.DRAFT, CPU), kept, None)
        for state, draft, count, token in zip(rows, drafts, kept, added, strict=True):
            state.tokens += [*draft[:count], token]
    assert step(drafter, [*rows], [3, 3, 3]) == [continuation(oracle, state.tokens, 3) for state in rows]


def test_rows_have_limits_of_their_own_and_may_be_empty(drafter: DraftModel, oracle: LlamaForCausalLM) -> None:
    state = sequence([5, 6, 7])
    for row in (0, 2):
        drafter.prefill(row, sequence([5, 6]), None)
    expected = continuation(oracle, state.tokens, 2)
    assert step(drafter, [state, None, state], [2, 0, 1]) == [expected, [-1, -1], [expected[0], -1]]


def test_sampled_rows_draw_from_the_probabilities_that_are_reported(drafter: DraftModel) -> None:
    sampled = SamplingParams(temperature=0.8, top_k=3)
    rows: list[SequenceState | None] = [sequence([5, 6, 7], sampled), sequence([5, 6, 7])]
    for row in (0, 1):
        drafter.prefill(row, sequence([5, 6]), None)
    with torch.inference_mode():
        draft = drafter.propose(Batch.of(rows, noise.DRAFT, CPU), [4, 4])
    assert draft.probs is not None
    assert (draft.probs > 0).sum(-1).tolist() == [[3] * 4, [1] * 4]
    assert draft.probs.gather(2, draft.tokens[:, :, None]).min() > 0


def test_a_row_is_reused_without_a_trace_of_who_was_there(drafter: DraftModel, oracle: LlamaForCausalLM) -> None:
    for tokens in ([9] * 30, [5, 6, 7]):
        drafter.prefill(1, sequence(tokens), None)
        state = sequence([*tokens, 3])
        drafts = step(drafter, [None, state], [0, 3])
        assert drafts[1] == continuation(oracle, state.tokens, 3)
        drafter.release(1)


def test_a_head_for_a_part_of_the_vocabulary_drafts_its_best_token_and_gives_none_else_a_chance(
    reduced: Path, oracle: LlamaForCausalLM
) -> None:
    drafter = DraftModel(Llama.from_directory(reduced, torch.float32, CPU), rows=2, slots=64)
    rows: list[SequenceState | None] = [
        sequence([5, 6, 7]),
        sequence([5, 6, 7], SamplingParams(temperature=1.0)),
    ]
    for row in (0, 1):
        drafter.prefill(row, sequence([5, 6]), None)
    with torch.inference_mode():
        draft = drafter.propose(Batch.of(rows, noise.DRAFT, CPU), [1, 1])
        logits = oracle(torch.tensor([[5, 6, 7]])).logits[0, -1]
    spoken = torch.tensor([token % 3 > 0 for token in range(258)])
    logits = logits.masked_fill(~spoken, float("-inf"))
    assert draft.tokens[0].item() == logits.argmax()
    assert draft.probs is not None
    torch.testing.assert_close(draft.probs[1, 0], logits.softmax(-1))


def test_such_a_model_is_refused_as_a_target(reduced: Path) -> None:
    with pytest.raises(ValueError, match="it can draft, and not be a target"):
        load_engine(reduced, max_model_len=64)


@torch.inference_mode()
@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_what_was_missed_in_a_long_time_without_a_draft_is_entered_in_chunks(
    drafter: DraftModel, oracle: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(draft_model, "CHUNK", chunk)
    rows = [sequence([5, 6, 7, 8, 9]), sequence([1]), sequence([30, 31, 30, 31])]
    for row, state in enumerate(rows):
        drafter.prefill(row, state, None)
        # Of the second row less is missing than of the others.
        state.tokens += range(100, 103 if row == 1 else 110)
    assert step(drafter, [*rows], [3, 3, 3]) == [continuation(oracle, state.tokens, 3) for state in rows]


@torch.inference_mode()
@pytest.mark.parametrize("below", [0.035, 0.045, 0.06])
def test_a_draft_ends_after_the_first_token_that_it_is_unsure_of(
    pruned: Path, oracle: LlamaForCausalLM, below: float
) -> None:
    drafter = DraftModel(Llama.from_directory(pruned, torch.float32, CPU), rows=3, slots=64, stop_below=below)
    rows = [sequence([5, 6, 7, 8, 9]), sequence([1, 2]), sequence([30, 31, 30, 31])]
    for row, state in enumerate(rows):
        drafter.prefill(row, state, None)
        state.tokens.append(40 + row)
    limits = [8, 8, 2]
    drafts = step(drafter, [*rows], limits)
    expected = []
    for state, limit in zip(rows, limits, strict=True):
        draft = continuation(oracle, state.tokens, limit)
        for count in range(1, limit):
            logits = oracle(torch.tensor([[*state.tokens, *draft[: count - 1]]])).logits[0, -1]
            if logits.softmax(-1).max() < below:
                draft = draft[:count]
                break
        expected.append(draft)
    assert [[token for token in draft if token >= 0] for draft in drafts] == expected
    assert len(drafts[0]) == max(map(len, expected))
