"""The suffix drafter proposes from each request's own text, and changes no token."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specbench.decoder import noise
from specbench.decoder.batch import Batch
from specbench.decoder.drafters.suffix import SuffixDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.request import Request, SequenceState
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.suffix import SuffixMemory, SuffixRule

CPU = torch.device("cpu")
PROMPTS = [list(text.encode()) for text in ("abcabcabc", "The quick brown fox", "x", "01010101", "aaaa")]


def sequence(tokens: list[int]) -> SequenceState:
    return SequenceState(Request("", tokens, SamplingParams()), frozenset(), 64, list(tokens))


def propose(drafter: SuffixDrafter, rows: list[SequenceState | None], limits: list[int]) -> list[list[int]]:
    return drafter.propose(Batch.of(rows, noise.DRAFT, CPU), limits).tokens.tolist()


def test_it_follows_the_text_as_it_grows() -> None:
    drafter, state = SuffixDrafter(), sequence([1, 2, 3, 4])
    drafter.prefill(0, state, None)
    assert propose(drafter, [state], [3]) == [[]]
    state.tokens += [1, 2]
    # A match of two tokens allows two.
    assert propose(drafter, [state], [3]) == [[3, 4]]
    state.tokens += [3]
    assert propose(drafter, [state], [3]) == [[4, 1, 2]]


def test_rows_without_a_request_have_no_draft() -> None:
    drafter, state = SuffixDrafter(), sequence([1, 2, 1])
    drafter.prefill(1, state, None)
    assert propose(drafter, [None, state], [0, 4]) == [[-1], [2]]


def test_a_row_is_reused_without_a_trace_of_who_was_there() -> None:
    drafter = SuffixDrafter()
    drafter.prefill(0, sequence([1, 2, 3]), None)
    drafter.release(0)
    state = sequence([4, 1, 2])
    drafter.prefill(0, state, None)
    assert propose(drafter, [state], [3]) == [[]]


def test_a_memory_keeps_a_response_to_its_last_token() -> None:
    drafter = SuffixDrafter(memory=SuffixMemory(SuffixRule(), 4))
    first = sequence([1])
    drafter.prefill(0, first, None)
    first.tokens += [5, 6, 7]
    drafter.release(0)
    second = sequence([2])
    drafter.prefill(0, second, None)
    second.tokens += [5, 6]
    assert propose(drafter, [second], [3]) == [[7]]


def decoded(engine: Engine, prompt: list[int]) -> list[int]:
    engine.add(Request("", prompt, SamplingParams(temperature=0.0, max_tokens=40, ignore_eos=True)))
    tokens: list[int] = []
    while engine.has_work:
        tokens += [token for output in engine.step() for token in output.token_ids]
    return tokens


def test_an_engine_remembers_as_many_responses_as_it_is_told_to_and_says_the_same(target: Path) -> None:
    plain = load_engine(target, max_model_len=80)
    accepted = []
    for kept in (0, 1, 2):
        engine = load_engine(target, method="suffix", gamma=4, max_model_len=80, suffix_cached_requests=kept)
        before = 0
        for prompt in (PROMPTS[1], PROMPTS[2], PROMPTS[1]):
            before = engine.counters.accepted
            assert decoded(engine, prompt) == decoded(plain, prompt)
        accepted.append(engine.counters.accepted - before)
    # Of the last request, whose prompt was there before: the answer that is being written is one of those kept.
    assert accepted[2] > max(accepted[:2])


def test_other_methods_remember_nothing(target: Path) -> None:
    with pytest.raises(ValueError, match="ngram keeps no earlier responses"):
        load_engine(target, method="ngram", gamma=2, suffix_cached_requests=4)


@pytest.mark.parametrize("gamma", [1, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("verification", ["rejection", "coupled"])
def test_no_token_changes(target: Path, batch_size: int, gamma: int, verification: str) -> None:
    def tokens(method: str, gamma: int, size: int) -> tuple[dict[str, list[int]], int]:
        engine = load_engine(
            target, method=method, gamma=gamma, max_batch_size=size, max_model_len=80, verification=verification,
        )  # type: ignore[arg-type]  # fmt: skip
        out: dict[str, list[int]] = {}
        for number, prompt in enumerate(PROMPTS):
            # Under coupled verification a sampled request keeps its tokens too.
            warm = 0.8 if verification == "coupled" and number % 2 else 0.0
            params = SamplingParams(temperature=warm, max_tokens=50, seed=number, ignore_eos=True)
            engine.add(Request(str(number), prompt, params))
            out[str(number)] = []
        while engine.has_work:
            for output in engine.step():
                out[output.request_id] += output.token_ids
        return out, engine.counters.accepted

    plain, _ = tokens("none", 0, 1)
    ours, accepted = tokens("suffix", gamma, batch_size)
    assert ours == plain
    assert accepted > 0
