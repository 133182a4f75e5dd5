"""The offset profile is what speculative runs of every gamma do, step by step, and none of them had to be made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest
import torch

from specbench.decoder.drafters.suffix import SuffixDrafter
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.models.eagle3 import Eagle3Head
from specbench.decoder.models.llama import Llama
from specbench.decoder.suffix import SuffixMemory, SuffixRule
from specbench.drafter import resolve_drafter
from specbench.profile.base import Profiler
from specbench.profile.decode import answer, load_profiler, load_target
from specbench.profile.lookups import NgramProfiler, SuffixProfiler
from specbench.profile.offsets import Transcript, walk
from specbench.profile.teacher_forced import DraftModelProfiler, Eagle3Profiler
from specbench.workloads.prompt import Prompt
from specbench.workloads.stats import tokens

GAMMAS = range(1, 9)
TEXTS = ("abcabcabc", "The quick brown fox", "x", "01010101", "{}", "aaaa", "To be or not to be, to b")
PROMPTS = [list(text.encode()) for text in TEXTS]
LENGTHS = {"to the token limit": {"max_tokens": 40}, "to the model's length": {"max_tokens": 1000}}
OPTIONS = ("norm_before_fc", "fc_norm", "norm_before_residual", "norm_output")

Decode = Callable[..., Any]


def accepted_alike(
    profiler: Profiler,
    answered: Sequence[Transcript],
    engine: Callable[[int], Engine],
    run: Decode,
    **params: Any,
) -> int:
    """Assert the same numbers of tokens drafted, accepted and emitted in every single step, with every gamma.

    Returns the tokens accepted by all these runs.
    """
    tables = [profiler.table(transcript, max(GAMMAS)) for transcript in answered]
    accepted = 0
    for gamma in GAMMAS:
        outputs = run(engine(gamma), [transcript.prompt for transcript in answered], **params)
        for transcript, table, (first, *steps) in zip(answered, tables, outputs.values(), strict=True):
            assert first.first
            walked = walk(table, transcript, gamma)
            ours = zip(walked.drafted.tolist(), walked.accepted.tolist(), walked.emitted.tolist(), strict=True)
            assert list(ours) == [(step.drafted, step.accepted, len(step.token_ids)) for step in steps]
            accepted += sum(step.accepted for step in steps)
    return accepted


def make(target: Path, method: str, gamma: int, drafter: Path | None = None, length: int = 90) -> Engine:
    return load_engine(
        target, method=method, gamma=gamma, drafter=drafter, dtype="float32", max_batch_size=4, max_model_len=length
    )


@pytest.mark.parametrize("method", ["ngram", "suffix"])
@pytest.mark.parametrize("params", LENGTHS.values(), ids=LENGTHS)
def test_lookups(target: Path, transcripts: Decode, run: Decode, method: str, params: dict[str, Any]) -> None:
    params = {**params, "ignore_eos": True}
    answered = transcripts(make(target, "none", 0), PROMPTS, **params)
    profiler = NgramProfiler() if method == "ngram" else SuffixProfiler()
    assert accepted_alike(profiler, answered, lambda gamma: make(target, method, gamma), run, **params) > 20


@pytest.mark.parametrize("drafter", ["pruned", "reduced", "self"])
def test_draft_models(
    target: Path, pruned: Path, reduced: Path, transcripts: Decode, run: Decode, drafter: str
) -> None:
    params = {"max_tokens": 30, "ignore_eos": True}
    directory = {"pruned": pruned, "reduced": reduced, "self": target}[drafter]
    answered = transcripts(make(target, "none", 0), PROMPTS, **params)
    profiler = DraftModelProfiler(Llama.from_directory(directory, torch.float32, torch.device("cpu")))
    assert (
        accepted_alike(profiler, answered, lambda gamma: make(target, "draft_model", gamma, directory), run, **params)
        > 20
    )


@pytest.mark.parametrize(
    "options",
    [{}, *({name: True} for name in OPTIONS), dict.fromkeys(OPTIONS, True)],
    ids=lambda o: "+".join(o) or "plain",
)
def test_eagle3_heads(
    deep_target: Path, save_head: Callable[..., Path], transcripts: Decode, run: Decode, options: dict[str, bool]
) -> None:
    params = {"max_tokens": 24, "ignore_eos": True}
    answered = transcripts(make(deep_target, "none", 0), PROMPTS, **params)
    likely = [token for token, _ in Counter(chain(*(t.response for t in answered))).most_common(6)]
    head = save_head(likely, **options)
    model = Llama.from_directory(deep_target, torch.float32, torch.device("cpu"))
    profiler = Eagle3Profiler(Eagle3Head.from_directory(head, model), model)
    assert (
        accepted_alike(profiler, answered, lambda gamma: make(deep_target, "eagle3", gamma, head), run, **params) > 20
    )


@pytest.mark.parametrize("method", ["ngram", "suffix", "draft_model"])
def test_responses_that_end_within_an_accepted_draft(
    target: Path, transcripts: Decode, run: Decode, method: str
) -> None:
    """A stop token ends the request wherever it stands, and what was drafted after it is neither kept nor refused."""
    drafter = target if method == "draft_model" else None
    profiler: Profiler = {
        "ngram": NgramProfiler(),
        "suffix": SuffixProfiler(),
        "draft_model": DraftModelProfiler(Llama.from_directory(target, torch.float32, torch.device("cpu"))),
    }[method]
    plain = make(target, "none", 0, length=200)
    cut = 0
    for transcript in transcripts(plain, PROMPTS, max_tokens=150, ignore_eos=True):
        tokens = [*transcript.prompt, *transcript.response]
        for prompt, stop in _before_a_repeated_token(tokens):
            params = {"max_tokens": 40, "ignore_eos": True, "stop_token_ids": (stop,)}
            answered = transcripts(plain, [prompt], **params)
            accepted_alike(profiler, answered, lambda gamma: make(target, method, gamma, drafter, 200), run, **params)
            table = profiler.table(answered[0], max(GAMMAS))
            cut += sum(bool((s.judged < s.drafted).any()) for s in (walk(table, answered[0], g) for g in GAMMAS))
    assert cut > 5


def _before_a_repeated_token(tokens: list[int]) -> Iterator[tuple[list[int], int]]:
    """Beginnings that go on for five tokens with what stood there before, and the fifth: new among the five, so that a
    request may end there. At most two."""
    places = (
        place
        for place in range(30, len(tokens))
        if tokens[place] not in tokens[place - 4 : place]
        and any(tokens[at : at + 7] == tokens[place - 6 : place + 1] for at in range(place - 6))
    )
    for place in islice(places, 2):
        yield tokens[: place - 4], tokens[place]


def test_suffix_decoding_with_a_memory_of_earlier_responses(target: Path, transcripts: Decode, run: Decode) -> None:
    """In the order of the transcripts, as a server that decodes one request at a time; the oldest are forgotten."""
    params = {"max_tokens": 30, "ignore_eos": True}
    # Twice the same prompts: with a memory of eight responses the second time is almost free.
    answered = transcripts(make(target, "none", 0), [*PROMPTS, *PROMPTS], **params)

    def engine(gamma: int) -> Engine:
        engine = load_engine(target, method="suffix", gamma=gamma, dtype="float32", max_batch_size=1, max_model_len=90)
        engine.drafter = SuffixDrafter(SuffixRule(), SuffixMemory(SuffixRule(), 8))
        return engine

    assert accepted_alike(SuffixProfiler(cached_requests=8), answered, engine, run, **params) > 20


@pytest.mark.parametrize(("method", "drafter"), [("draft_model", "demo-reduced"), ("eagle3", "demo")])
def test_the_demo_target_and_its_own_drafters(demo_target: Path, run: Decode, method: str, drafter: str) -> None:
    """Real weights, a real chat template, and heads for a part of the vocabulary."""
    weights = resolve_drafter(method, drafter)
    prompts = [
        Prompt("list", messages=({"role": "user", "content": "Write the numbers from 1 to 30, one a line."},)),
        Prompt("poem", prompt="Roses are red, violets are", max_tokens=12),
    ]
    plain = load_target(demo_target, device="cpu", dtype="float32", rows=2, threads=None)
    answered = list(answer(plain, prompts, tokens(demo_target), max_tokens=20))
    profiler, cost = load_profiler(method, plain, demo_target, weights)
    assert 0 < cost.per_token < 1
    tables = [profiler.table(transcript, 6) for transcript in answered]
    accepted = 0
    for gamma in (2, 6):
        engine = make(demo_target, method, gamma, weights, length=200)
        for transcript, table in zip(answered, tables, strict=True):
            (_, *steps), *_ = run(engine, [transcript.prompt], max_tokens=transcript.max_tokens).values()
            walked = walk(table, transcript, gamma)
            assert walked.drafted.tolist() == [step.drafted for step in steps]
            assert walked.accepted.tolist() == [step.accepted for step in steps]
            accepted += int(walked.accepted.sum())
    assert accepted > 3
