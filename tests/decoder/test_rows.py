"""Requests come, wait, end, fail and are aborted, and those beside them are none the wiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asking import GREEDY, MAX_TOKENS, PROMPTS, SAMPLED, fields, requests
from driving import assert_cache_is_a_fresh_prefill
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbench.decoder.engine import Engine
from specbench.decoder.request import Request, RequestFailed
from specbench.decoder.sampling import SamplingParams


def test_an_abort_frees_the_row_or_the_place_in_the_queue(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]]
) -> None:
    speculating = engine("pruned", 3, max_batch_size=2)
    for request in requests(GREEDY)[:4]:
        speculating.add(request)
    for _ in range(4):
        speculating.step()
    assert (speculating.running, speculating.waiting) == (2, 2)
    for id in ("0", "2"):
        speculating.abort(id)
    assert (speculating.running, speculating.waiting) == (1, 1)
    speculating.abort("0")
    assert (speculating.running, speculating.waiting) == (1, 1)
    rest: dict[str, list[int]] = {"1": [], "3": []}
    while speculating.has_work:
        for output in speculating.step():
            rest[output.request_id] += output.token_ids
    assert rest["3"] == plain(GREEDY)["3"]
    assert rest["1"] == plain(GREEDY)["1"][-len(rest["1"]) :]
    assert speculating.kv_tokens == 0


def test_a_freed_row_is_taken_by_the_next_in_line(engine: Callable[..., Engine]) -> None:
    speculating = engine(max_batch_size=2)
    for id, max_tokens in (("short", 2), ("long", 9), ("next", 3)):
        speculating.add(Request(id, PROMPTS[1], SamplingParams(temperature=0.0, max_tokens=max_tokens)))
    log = [[output.request_id for output in speculating.step()] for _ in range(5)]
    assert log == [["short"], ["long"], ["short", "long"], ["next"], ["next", "long"]]
    assert speculating.kv_capacity == 2 * 64


@pytest.mark.parametrize("method", ["none", "ngram", "pruned", "layer_skip", "ssd"])
@pytest.mark.parametrize("broken", ["prefill", "_emit"])
def test_a_request_that_cannot_be_admitted_fails_alone(
    engine: Callable[..., Engine],
    plain: Callable[..., dict[str, list[int]]],
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    broken: str,
) -> None:
    speculating = engine(method, 0 if method == "none" else 3, max_batch_size=2)
    first, bad, last, *_ = requests(GREEDY)
    speculating.add(first)
    speculating.step()
    speculating.step()
    with monkeypatch.context() as patch:
        patch.setattr(speculating.drafter if broken == "prefill" else speculating, broken, explode)
        speculating.add(bad)
        with pytest.raises(RequestFailed, match=r"IndexError: out of bounds") as failed:
            speculating.step()
    assert failed.value.request_id == bad.id
    assert (speculating.running, speculating.waiting) == (1, 0)
    speculating.add(last)
    got: dict[str, list[int]] = {first.id: [], last.id: []}
    while speculating.has_work:
        for output in speculating.step():
            got[output.request_id] += output.token_ids
        assert_cache_is_a_fresh_prefill(speculating)
    assert got[last.id] == plain(GREEDY)[last.id]
    assert got[first.id] == plain(GREEDY)[first.id][-len(got[first.id]) :]


def explode(*args: Any, **kwargs: Any) -> None:
    raise IndexError("out of bounds")


@pytest.mark.parametrize(
    ("prompt", "words"),
    [([], "empty"), (list(range(64)), r"64 tokens.*64 \(max_model_len\)"), ([3, 258], "outside the vocabulary")],
)
def test_a_prompt_that_cannot_be_decoded_is_refused(
    engine: Callable[..., Engine], prompt: list[int], words: str
) -> None:
    speculating = engine()
    with pytest.raises(ValueError, match=words):
        speculating.add(Request("1", prompt, GREEDY))
    assert not speculating.has_work


def test_an_id_is_refused_while_it_is_in_use(engine: Callable[..., Engine]) -> None:
    speculating = engine()
    speculating.add(Request("1", [5], GREEDY))
    for _ in range(2):
        with pytest.raises(ValueError, match="already here"):
            speculating.add(Request("1", [6], GREEDY))
        speculating.step()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_schedule_of_joins_ends_and_aborts_leaves_tokens_and_cache_right(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]], data: st.DataObject
) -> None:
    method = data.draw(st.sampled_from(["none", "ngram", "suffix", "self", "pruned", "layer_skip", "ssd"]))
    gamma = 0 if method == "none" else data.draw(st.integers(1, 4))
    speculating = engine(method, gamma, max_batch_size=data.draw(st.integers(1, 4)), verification="coupled")
    expected = plain(GREEDY, SAMPLED, verification="coupled")
    got: dict[str, list[int]] = {}
    cut: dict[str, int] = {}
    aborted: set[str] = set()
    ended: set[str] = set()
    waiting = data.draw(st.permutations(requests(GREEDY, SAMPLED)))
    while waiting or speculating.has_work:
        action = data.draw(st.sampled_from(["join", "step", "step", "step", "abort"]))
        if action == "join" and waiting:
            request = waiting.pop()
            # Some requests end at a token of their own output, some at a length.
            end = data.draw(st.integers(1, MAX_TOKENS))
            params = fields(request.params) | {"max_tokens": end}
            if data.draw(st.booleans()):
                stop = expected[request.id][end - 1]
                end = expected[request.id].index(stop) + 1
                params |= {"stop_token_ids": (stop,), "max_tokens": MAX_TOKENS}
            cut[request.id], got[request.id] = end, []
            speculating.add(Request(request.id, request.prompt_ids, SamplingParams(**params)))
        elif action == "abort" and got:
            id = data.draw(st.sampled_from(sorted(got)))
            speculating.abort(id)
            aborted |= {id} - ended
        else:
            for output in speculating.step():
                got[output.request_id] += output.token_ids
                ended |= {output.request_id} if output.finish_reason else set()
            assert_cache_is_a_fresh_prefill(speculating)
    for id, ours in got.items():
        whole = expected[id][: cut[id]]
        assert ours == (whole[: len(ours)] if id in aborted else whole)
