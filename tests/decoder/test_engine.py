"""What a user of speculative decoding is promised: the same tokens, in fewer steps, whoever else is in the batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from asking import GREEDY, MAX_TOKENS, PROMPTS, SAMPLED, fields, requests
from driving import assert_cache_is_a_fresh_prefill, run, tokens

from specbench.decoder.cache import KVCache
from specbench.decoder.engine import Engine
from specbench.decoder.load import load_engine
from specbench.decoder.models.prefill import prefill
from specbench.decoder.request import Request
from specbench.decoder.sampling import SamplingParams

BATCH_SIZES, GAMMAS = (1, 3, 8), (1, 2, 3, 5)


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
@pytest.mark.parametrize("method", ["ngram", "suffix", "self", "pruned", "reduced", "layer_skip", "ssd", "ssd-reduced"])
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
@pytest.mark.parametrize("method", ["ngram", "suffix", "self", "pruned", "reduced", "layer_skip", "ssd", "ssd-reduced"])
def test_coupled_verification_gives_the_same_sampled_tokens_for_the_same_seeds(
    engine: Callable[..., Engine], plain: Callable[..., dict[str, list[int]]], method: str, batch_size: int, gamma: int
) -> None:
    mixed = (SAMPLED, SamplingParams(**{**fields(SAMPLED), "top_k": 20, "top_p": 0.9}), GREEDY)
    speculating = engine(method, gamma, max_batch_size=batch_size, verification="coupled")
    assert tokens(run(speculating, requests(*mixed))) == plain(*mixed, verification="coupled")


@pytest.mark.parametrize(
    ("method", "verification"),
    [
        *((method, "rejection") for method in ("none", "ngram", "suffix", "pruned", "reduced", "ssd")),
        ("pruned", "block"),
        ("ssd", "block"),
    ],
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


@pytest.mark.parametrize("method", ["none", "ngram", "suffix", "self", "pruned", "layer_skip", "ssd"])
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


@pytest.mark.parametrize("method", ["none", "ngram", "suffix", "self", "pruned", "layer_skip", "ssd"])
def test_after_every_step_the_cache_equals_a_fresh_prefill(engine: Callable[..., Engine], method: str) -> None:
    speculating = engine(method, 0 if method == "none" else 3, max_batch_size=3)
    for request in requests(GREEDY, SAMPLED):
        speculating.add(request)
    while speculating.has_work:
        speculating.step()
        assert_cache_is_a_fresh_prefill(speculating)
