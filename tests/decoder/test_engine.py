"""What a user of speculative decoding is promised: the same tokens, in fewer steps, whoever else is in the batch."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from driving import run, tokens
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from specbench.decoder.cache import KVCache
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.models.prefill import prefill
from specbench.decoder.request import Request, RequestFailed
from specbench.decoder.sampling import SamplingParams

BATCH_SIZES, GAMMAS, MAX_TOKENS = (1, 3, 8), (1, 2, 3, 5), 25
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
PROMPTS = [list(text.encode()) for text in TEXTS]
SAMPLED = SamplingParams(temperature=0.8, max_tokens=MAX_TOKENS, ignore_eos=True)


@pytest.fixture(scope="module")
def engine(target: Path, pruned: Path, reduced: Path) -> Callable[..., Engine]:
    """An engine over the tiny target; `self` is the target as its own draft, `pruned` its layer-pruned copy, `reduced`
    that with a head for a part of the vocabulary."""
    drafters = {"none": None, "ngram": None, "suffix": None, "self": target, "pruned": pruned, "reduced": reduced}

    def make(method: str = "none", gamma: int = 0, **settings: Any) -> Engine:
        drafter = drafters[method]
        return load_engine(
            target,
            method="draft_model" if drafter else method,
            gamma=gamma,
            drafter=drafter,
            **{"max_model_len": 64, **settings},
        )

    return make


def requests(*params: SamplingParams) -> list[Request]:
    """One request per prompt, each with its own seed."""
    return [
        Request(str(i), prompt, SamplingParams(**{**_fields(p), "seed": 100 + i}))
        for i, (prompt, p) in enumerate(zip(PROMPTS, itertools.cycle(params)))
    ]


def _fields(params: SamplingParams) -> dict[str, Any]:
    return {name: getattr(params, name) for name in SamplingParams.__dataclass_fields__}


GREEDY = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=True)


@pytest.fixture(scope="module")
def plain(engine: Callable[..., Engine]) -> Callable[..., dict[str, list[int]]]:
    """Tokens of plain decoding, one request at a time."""

    @cache
    def decode(*params: SamplingParams, **settings: Any) -> dict[str, list[int]]:
        return tokens(run(engine(max_batch_size=1, **settings), requests(*params)))

    return decode


def test_plain_greedy_decoding_is_that_of_transformers(
    target: Path, plain: Callable[..., dict[str, list[int]]]
) -> None:
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(target)
    for prompt, ours in zip(PROMPTS, plain(GREEDY).values(), strict=True):
        ids = torch.tensor([prompt])
        theirs = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=MAX_TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        assert ours == theirs[0, len(prompt) :].tolist()


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("method", ["ngram", "suffix", "self", "pruned", "reduced"])
def test_greedy_tokens_do_not_change(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]], method: str, batch_size: int, gamma: int
) -> None:
    speculating = engine(method, gamma, max_batch_size=batch_size)
    assert tokens(run(speculating, requests(GREEDY))) == plain(GREEDY)
    assert speculating.counters.drafted > 0


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_the_target_as_its_own_draft_accepts_everything(
    engine: Callable[..., Engine], batch_size: int, gamma: int
) -> None:
    speculating = engine("self", gamma, max_batch_size=batch_size)
    max_tokens = 1 + 4 * (gamma + 1)
    outputs = run(speculating, requests(SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True)))
    for steps in outputs.values():
        assert [len(step.token_ids) for step in steps] == [1] + [gamma + 1] * 4
        assert [step.accepted for step in steps[1:]] == [gamma] * 4
    counters = speculating.counters
    assert counters.accepted == counters.drafted == 4 * gamma * len(PROMPTS)
    assert counters.accepted_at == [4 * len(PROMPTS)] * gamma
    assert 1 + counters.accepted / counters.steps == gamma + 1


def test_a_pruned_draft_is_accepted_in_part(engine: Callable[..., Engine]) -> None:
    speculating = engine("pruned", 3)
    run(speculating, requests(GREEDY))
    counters = speculating.counters
    assert 0 < counters.accepted < counters.drafted
    assert counters.accepted_at == sorted(counters.accepted_at, reverse=True)
    assert sum(counters.accepted_at) == counters.accepted


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
@pytest.mark.parametrize("method", ["ngram", "suffix", "self", "pruned", "reduced"])
def test_coupled_verification_gives_the_same_sampled_tokens_for_the_same_seeds(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]], method: str, batch_size: int, gamma: int
) -> None:
    mixed = (SAMPLED, SamplingParams(**{**_fields(SAMPLED), "top_k": 20, "top_p": 0.9}), GREEDY)
    speculating = engine(method, gamma, max_batch_size=batch_size, verification="coupled")
    assert tokens(run(speculating, requests(*mixed))) == plain(*mixed, verification="coupled")


@pytest.mark.parametrize(
    ("method", "verification"),
    [*((method, "rejection") for method in ("none", "ngram", "suffix", "pruned", "reduced")), ("pruned", "block")],
)
def test_sampled_tokens_do_not_depend_on_batch_mates(
    engine: Callable[..., Engine], method: str, verification: str
) -> None:
    def make(batch_size: int) -> Engine:
        return engine(method, 0 if method == "none" else 3, max_batch_size=batch_size, verification=verification)

    alone = tokens(run(make(1), requests(SAMPLED)))
    assert tokens(run(make(8), requests(SAMPLED))) == alone
    # Other mates, which come in another order and decode greedily.
    mixed = tokens(run(make(3), reversed(requests(SAMPLED, GREEDY))))
    assert {id: mixed[id] for id in "0246"} == {id: alone[id] for id in "0246"}


def test_a_sampled_self_draft_is_accepted_under_every_verifier(engine: Callable[..., Engine]) -> None:
    for verification in ("rejection", "block", "coupled"):
        speculating = engine("self", 3, verification=verification)
        run(speculating, requests(SamplingParams(temperature=0.8, max_tokens=25, ignore_eos=True)))
        # The two caches differ in the last bits, and a draw may fall between.
        assert speculating.counters.accepted >= 0.99 * speculating.counters.drafted


@pytest.mark.parametrize("method", ["none", "ngram", "suffix", "self", "pruned"])
def test_every_token_is_counted_once(engine: Callable[..., Engine], method: str) -> None:
    speculating = engine(method, 0 if method == "none" else 3, max_batch_size=3)
    for steps in run(speculating, requests(GREEDY, SAMPLED)).values():
        first, *rest = steps
        assert (first.first, len(first.token_ids), first.drafted) == (True, 1, 0)
        assert all(len(step.token_ids) == 1 + step.accepted and step.accepted <= step.drafted for step in rest)
        assert steps[-1].finish_reason == "length"
        assert sum(len(step.token_ids) for step in steps) == MAX_TOKENS
    counters = speculating.counters
    assert counters.generated == len(PROMPTS) * MAX_TOKENS == len(PROMPTS) + counters.steps + counters.accepted
    assert all(seconds >= 0 for seconds in counters.seconds.values())


@pytest.mark.parametrize("method", ["none", "self"])
def test_the_model_length_ends_a_request(engine: Callable[..., Engine], method: str) -> None:
    speculating = engine(method, 0 if method == "none" else 5, max_model_len=20)
    long = SamplingParams(temperature=0.0, max_tokens=1000, ignore_eos=True)
    steps = run(speculating, [Request("a", list(range(17)), long), Request("b", list(range(19)), long)])
    assert [sum(len(s.token_ids) for s in steps[id]) for id in "ab"] == [3, 1]
    assert [steps[id][-1].finish_reason for id in "ab"] == ["length", "length"]


@pytest.mark.parametrize("position", [1, 2, 3, 4, 6])
def test_a_stop_token_inside_a_draft_ends_the_request_there(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]], position: int
) -> None:
    expected = plain(GREEDY)["1"]
    stop = expected[position]
    cut = expected.index(stop) + 1
    speculating = engine("self", 3)
    params = SamplingParams(temperature=0.0, max_tokens=25, stop_token_ids=(stop,), ignore_eos=True)
    steps = run(speculating, [Request("1", PROMPTS[1], params)])["1"]
    assert tokens({"1": steps})["1"] == expected[:cut]
    assert steps[-1].finish_reason == "stop"
    assert steps[-1].accepted == min(3, len(steps[-1].token_ids))
    assert speculating.counters.accepted == sum(step.accepted for step in steps)
    assert speculating.running == 0


def test_eos_ends_a_request_unless_ignored(
    target: Path, plain: Callable[..., dict[str, list[int]]], tmp_path: Path
) -> None:
    import json
    import shutil

    expected = plain(GREEDY)["1"]
    eos = expected[4]
    shutil.copytree(target, tmp_path, dirs_exist_ok=True)
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [999, eos]}))
    for ignore, length in ((False, expected.index(eos) + 1), (True, MAX_TOKENS)):
        engine = load_engine(tmp_path, max_model_len=64)
        params = SamplingParams(temperature=0.0, max_tokens=MAX_TOKENS, ignore_eos=ignore)
        steps = run(engine, [Request("1", PROMPTS[1], params)])
        assert tokens(steps)["1"] == expected[:length]
        assert steps["1"][-1].finish_reason == ("length" if ignore else "stop")


def test_the_request_is_asked_about_every_token_in_turn(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]]
) -> None:
    asked: list[int] = []

    def stops(token: int) -> bool:
        asked.append(token)
        return len(asked) == 7

    steps = run(engine("self", 3), [Request("1", PROMPTS[1], GREEDY, stops)])["1"]
    assert asked == tokens({"1": steps})["1"] == plain(GREEDY)["1"][:7]
    assert steps[-1].finish_reason == "stop"


@pytest.mark.parametrize("method", ["none", "self"])
def test_logprobs_are_those_of_the_raw_logits(engine: Callable[..., Engine], method: str) -> None:
    speculating = engine(method, 0 if method == "none" else 3)
    params = SamplingParams(temperature=0.7, top_k=5, max_tokens=9, logprobs=3, ignore_eos=True)
    steps = run(speculating, [Request("1", PROMPTS[1], params), Request("2", PROMPTS[2], GREEDY)])
    assert all(step.logprobs is None for step in steps["2"])
    text = list(PROMPTS[1])
    for step in steps["1"]:
        assert step.logprobs is not None
        for token, logprob in zip(step.token_ids, step.logprobs, strict=True):
            with torch.inference_mode():
                fresh = KVCache(speculating.target.config, 1, 64, torch.float32, torch.device("cpu"))
                logits = prefill(speculating.target, fresh, 0, text, logits=1).logits[0, 0]
            expected = logits.log_softmax(-1)
            assert logprob.token_id == token
            assert logprob.logprob == pytest.approx(expected[token].item(), abs=1e-4)
            assert [id for id, _ in logprob.top] == expected.topk(3).indices.tolist()
            assert [value for _, value in logprob.top] == pytest.approx(expected.topk(3).values.tolist(), abs=1e-4)
            text.append(token)


def assert_cache_is_a_fresh_prefill(engine: Engine) -> None:
    """Every live row holds, below its newest token, what running its tokens from scratch would leave there."""
    for row, sequence in enumerate(engine._rows):
        if sequence is None:
            continue
        length = len(sequence.tokens) - 1
        fresh = KVCache(engine.target.config, 1, engine.cache.slots, torch.float32, torch.device("cpu"))
        with torch.inference_mode():
            prefill(engine.target, fresh, 0, sequence.tokens[:length], logits=0)
        assert engine.cache.positions[row, :length].tolist() == list(range(length))
        torch.testing.assert_close(
            engine.cache.entries[:, row, :length], fresh.entries[:, 0, :length], atol=1e-4, rtol=1e-4
        )


@pytest.mark.parametrize("method", ["none", "ngram", "suffix", "self", "pruned"])
def test_after_every_step_the_cache_equals_a_fresh_prefill(engine: Callable[..., Engine], method: str) -> None:
    speculating = engine(method, 0 if method == "none" else 3, max_batch_size=3)
    for request in requests(GREEDY, SAMPLED):
        speculating.add(request)
    while speculating.has_work:
        speculating.step()
        assert_cache_is_a_fresh_prefill(speculating)


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


@pytest.mark.parametrize("method", ["none", "ngram", "pruned"])
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


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_schedule_of_joins_ends_and_aborts_leaves_tokens_and_cache_right(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]], data: st.DataObject
) -> None:
    method = data.draw(st.sampled_from(["none", "ngram", "suffix", "self", "pruned"]))
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
            params = _fields(request.params) | {"max_tokens": end}
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
