"""Gamma that changes at every step and from row to row changes no token, and leaves every cache right."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import torch
from driving import run, tokens
from guessing import NODES, GuessingDrafter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbench.decoder.cache import KVCache
from specbench.decoder.drafters.draft_model import DraftModel
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.models.llama import Llama
from specbench.decoder.models.prefill import prefill
from specbench.decoder.policies.base import Step
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams
from specbench.decoder.tree_shape import DynamicTree
from specbench.decoder.verifier import Verification

BATCH_SIZES, MAX_TOKENS, MAX_LENGTH = (1, 3, 8), 48, 80
TEXTS = (
    "abcabcabc",
    "The quick brown fox",
    "x",
    "010101",
    "hello, hello, hel",
    "{}",
    "aaaa",
    "To be or not to be, to b",
)
GREEDY = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=True)
SAMPLED = replace(GREEDY, temperature=0.8)
METHODS = ("ngram", "suffix", "self", "pruned", "reduced", "layer_skip", "ssd")
RULES = (
    "schedule:1=3+2=1+3=0+5=2",
    "adaptive:threshold",
    "adaptive:threshold+max=4+on=drafted+above=0.5+below=0.4",
    "adaptive:goodput+max=4",
)
Make = Callable[..., Engine]


@pytest.fixture(scope="module")
def make(target: Path, pruned: Path, reduced: Path) -> Make:
    """An engine over the tiny target. `self` drafts with the target itself, `pruned` with some of its layers, `reduced`
    with these and a part of the vocabulary."""
    drafters = {"self": target, "pruned": pruned, "reduced": reduced, "ssd": pruned}

    def load(
        method: str = "none", gamma: int | str = 0, batch_size: int = 1, verification: Verification = "rejection"
    ) -> Engine:
        return load_engine(
            target,
            method="draft_model" if method in ("self", "pruned", "reduced") else method,
            gamma=gamma,
            drafter=drafters.get(method),
            max_batch_size=batch_size,
            max_model_len=MAX_LENGTH,
            verification=verification,
        )

    return load


@pytest.fixture(scope="module")
def plain(make: Make) -> Callable[[SamplingParams], dict[str, list[int]]]:
    """Tokens of plain decoding, one request at a time."""

    @cache
    def decode(params: SamplingParams) -> dict[str, list[int]]:
        return tokens(run(make(verification="coupled"), requests(params)))

    return decode


def requests(params: SamplingParams) -> list[Request]:
    return [Request(str(i), list(text.encode()), replace(params, seed=50 + i)) for i, text in enumerate(TEXTS)]


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("method", METHODS)
def test_greedy_tokens_do_not_change(
    make: Make, plain: Callable[[SamplingParams], dict[str, list[int]]], method: str, rule: str, batch_size: int
) -> None:
    engine = make(method, rule, batch_size)
    some = requests(GREEDY)[: max(4, batch_size)]
    outputs = run(engine, some)
    assert tokens(outputs) == {request.id: plain(GREEDY)[request.id] for request in some}
    assert engine.counters.drafted > 0
    for first, *steps in outputs.values():
        assert first.gamma is None
        for step in steps:
            assert step.gamma is not None
            assert step.accepted <= step.drafted <= step.gamma <= engine.gamma


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("params", [GREEDY, SAMPLED], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", ["self", "pruned", "reduced"])
def test_a_draft_that_ends_where_the_drafter_is_unsure_changes_no_token(
    make: Make,
    plain: Callable[[SamplingParams], dict[str, list[int]]],
    method: str,
    params: SamplingParams,
    batch_size: int,
) -> None:
    engine = make(method, "adaptive:confidence+max=5+below=0.045", batch_size, "coupled")
    some = requests(params)[: max(4, batch_size)]
    outputs = run(engine, some)
    assert tokens(outputs) == {request.id: plain(params)[request.id] for request in some}
    assert len({step.drafted for steps in outputs.values() for step in steps[1:-3]}) > 1


def test_a_table_goes_by_the_requests_that_run(make: Make) -> None:
    engine = make("self", "schedule:1=3+2=1+3=0", batch_size=3)
    short, long, *_ = requests(GREEDY)
    outputs = run(engine, [replace(short, params=replace(GREEDY, max_tokens=9)), long])
    assert {step.gamma for step in outputs["0"][1:]} == {1}
    # While both run it is 1, and 3 once the other one is alone.
    assert list(dict.fromkeys(step.gamma for step in outputs["1"][1:])) == [1, 3]
    assert {step.gamma for steps in run(engine, requests(GREEDY)[:3]).values() for step in steps[1:-20]} == {0}


def test_a_gamma_that_stays_is_no_policy(make: Make) -> None:
    engine = make("ngram", 3)
    assert engine.policy is None
    assert {step.gamma for steps in run(engine, requests(GREEDY)[:1]).values() for step in steps} == {None}
    assert str(make("ngram", "adaptive:threshold").policy) == "adaptive:threshold"


def test_confidence_needs_a_drafter_that_has_any(make: Make) -> None:
    with pytest.raises(
        ValueError, match="ngram does not stop where it is unsure: that is for draft_model, layer_skip, eagle3"
    ):
        make("ngram", "adaptive:confidence")


def test_a_policy_sees_what_every_request_was_given_and_what_came_of_it(make: Make) -> None:
    engine, policy = make("pruned", 4, batch_size=3), Recorder(lambda size: [4, 0, 2][:size])
    engine.policy = policy
    outputs = run(engine, requests(GREEDY))
    seen: dict[Hashable, list[tuple[int, int, int]]] = {}
    for step in policy.steps:
        assert step.seconds > 0
        for session, *counts in zip(step.sessions, step.asked, step.drafted, step.accepted, strict=True):
            seen.setdefault(session, []).append((counts[0], counts[1], counts[2]))
    for id, (_, *steps) in outputs.items():
        room = MAX_TOKENS - 1
        expected = []
        for output in steps:
            assert output.gamma is not None
            expected.append((min(output.gamma, room - 1), output.drafted, output.accepted))
            room -= len(output.token_ids)
        assert seen[id] == expected
    assert sorted(policy.forgotten) == sorted(outputs)


class Recorder:
    """A policy of given gammas that notes what it is told."""

    stop_below: float | None = None
    largest = 4

    def __init__(self, gammas: Callable[[int], list[int]]) -> None:
        self._gammas = gammas
        self.steps: list[Step] = []
        self.forgotten: list[Hashable] = []

    def choose(self, sessions: Sequence[Hashable]) -> list[int]:
        return self._gammas(len(sessions))

    def observe(self, step: Step) -> None:
        self.steps.append(step)

    def forget(self, session: Hashable) -> None:
        self.forgotten.append(session)


def assert_holds_a_fresh_prefill(model: Llama, held: KVCache, row: int, text: Sequence[int]) -> None:
    """A row's entries are those that running the text from scratch leaves."""
    if not text:
        return
    fresh = KVCache(model.config, 1, held.slots, torch.float32, torch.device("cpu"))
    with torch.inference_mode():
        prefill(model, fresh, 0, text, logits=0)
    assert held.positions[row, : len(text)].tolist() == list(range(len(text)))
    torch.testing.assert_close(
        held.entries[:, row, : len(text)], fresh.entries[:, 0, : len(text)], atol=1e-4, rtol=1e-4
    )


def guessing(target: Llama, batch_size: int, drafter: GuessingDrafter) -> Engine:
    """Drafts chains and trees by turns."""
    return Engine(target, drafter, 4, batch_size, MAX_LENGTH, "coupled", tree=DynamicTree(1, NODES))


def assert_caches_are_right(engine: Engine) -> None:
    for row, sequence in enumerate(engine._rows):
        if sequence is None:
            continue
        assert_holds_a_fresh_prefill(engine.target, engine.cache, row, sequence.tokens[:-1])
        if isinstance(drafter := engine.drafter, DraftModel):
            assert drafter._seen[row] <= len(sequence.tokens)
            seen = sequence.tokens[: drafter._seen[row]]
            assert_holds_a_fresh_prefill(drafter.model, drafter.cache, row, seen)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_course_of_gammas_joins_ends_and_aborts_leaves_tokens_and_caches_right(
    make: Make, plain: Callable[[SamplingParams], dict[str, list[int]]], data: st.DataObject
) -> None:
    method = data.draw(st.sampled_from(["ngram", "suffix", "self", "pruned", "trees", "trees"]))
    params = data.draw(st.sampled_from([GREEDY, SAMPLED]))
    batch_size, expected = data.draw(st.integers(1, 4)), plain(params)
    if method == "trees":
        engine = guessing(make("none", 0).target, batch_size, GuessingDrafter(expected, 258, data.draw(st.integers())))
    else:
        engine = make(method, 4, batch_size, "coupled")
    suspending = st.integers(0, 4) if data.draw(st.booleans()) else st.sampled_from([0, 0, 0, 4])
    engine.policy = Recorder(lambda size: data.draw(st.lists(suspending, min_size=size, max_size=size)))
    got: dict[str, list[int]] = {}
    ends: dict[str, int] = {}
    aborted: set[str] = set()
    ended: set[str] = set()
    waiting = data.draw(st.permutations(requests(params)))[:5]
    while waiting or engine.has_work:
        action = data.draw(st.sampled_from(["join", "step", "step", "step", "abort"]))
        if action == "join" and waiting:
            request = waiting.pop()
            end = data.draw(st.integers(1, 30))
            own = replace(request.params, max_tokens=end)
            if data.draw(st.booleans()):  # ends at a token of its own output, as at an end of sequence
                stop = expected[request.id][end - 1]
                end = expected[request.id].index(stop) + 1
                own = replace(own, stop_token_ids=(stop,), max_tokens=MAX_TOKENS)
            ends[request.id], got[request.id] = end, []
            engine.add(replace(request, params=own))
        elif action == "abort" and got:
            id = data.draw(st.sampled_from(sorted(got)))
            engine.abort(id)
            aborted |= {id} - ended
        else:
            for output in engine.step():
                got[output.request_id] += output.token_ids
                ended |= {output.request_id} if output.finish_reason else set()
            assert_caches_are_right(engine)
    for id, ours in got.items():
        whole = expected[id][: ends[id]]
        assert ours == (whole[: len(ours)] if id in aborted else whole)
