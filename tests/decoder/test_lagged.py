"""An engine that reads its steps one behind gives every request what the ordinary one gives, whoever comes and goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from asking import GREEDY, MAX_TOKENS, PROMPTS, SAMPLED, requests
from driving import assert_cache_is_a_fresh_prefill, run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tape import capture

from specbench.decoder import lagged as module
from specbench.decoder.engine import Engine
from specbench.decoder.lagged import LaggedEngine
from specbench.decoder.request import Request, StepOutput
from specbench.decoder.sampling import SamplingParams

Make = Callable[..., Engine]

WARPED = replace(SAMPLED, top_k=20, top_p=0.9)


def counted(engine: Engine) -> tuple[Any, ...]:
    c = engine.counters
    return c.steps, c.drafts, c.drafted, c.accepted, c.accepted_at, c.generated


def assert_alike(
    make: Make, method: str, gamma: int, asked: list[Request], *, captured: bool = False, **how: Any
) -> LaggedEngine:
    """Every step of every request is the ordinary engine's, and so is what was counted."""
    led, lagged = make(method, gamma, **how), make(method, gamma, lagged="on", **how)
    assert isinstance(lagged, LaggedEngine)
    if captured:
        lagged._capture = capture
    assert run(lagged, asked) == run(led, asked)
    assert counted(lagged) == counted(led)
    assert led.counters.drafted > 0 or method == "none"
    return lagged


@pytest.mark.parametrize("batch_size", [1, 3, 8])
@pytest.mark.parametrize(
    ("method", "gamma"),
    [("none", 0), *((method, gamma) for method in ("self", "pruned", "reduced") for gamma in (1, 3, 5))],
)
@pytest.mark.parametrize(
    "params", [(GREEDY,), (SAMPLED,), (GREEDY, WARPED, SAMPLED)], ids=["greedy", "sampled", "mixed"]
)
def test_steps_are_those_of_the_ordinary_engine(
    engine: Make, method: str, gamma: int, batch_size: int, params: tuple[SamplingParams, ...]
) -> None:
    assert_alike(engine, method, gamma, requests(*params), max_batch_size=batch_size)


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(
    "how", [{"verification": "coupled"}, {"verification": "typical"}, {"acceptance": "synthetic:0.7"}]
)
def test_other_verdicts_are_the_same_too(engine: Make, how: dict[str, Any], captured: bool) -> None:
    assert_alike(engine, "pruned", 3, requests(GREEDY, SAMPLED), captured=captured, max_batch_size=3, **how)


@pytest.mark.parametrize("method", ["none", "pruned"])
@pytest.mark.parametrize("params", [(GREEDY,), (GREEDY, replace(SAMPLED, top_k=20), SAMPLED)], ids=["greedy", "mixed"])
def test_captured_once_steps_serve_all_that_comes(
    engine: Make, monkeypatch: pytest.MonkeyPatch, method: str, params: tuple[SamplingParams, ...]
) -> None:
    """By a stand-in for CUDA graphs, which also refuses what would make the host wait for a GPU."""
    gamma, captured = 0 if method == "none" else 3, []

    def counting(work: Callable[[], Any]) -> Any:
        captured.append(work)
        return capture(work)

    led, lagged = (engine(method, gamma, max_batch_size=3, lagged=lagged) for lagged in ("off", "on"))
    monkeypatch.setattr(lagged, "_capture", counting)
    assert run(lagged, requests(*params)) == run(led, requests(*params))
    shapes = len(lagged._steps)
    assert len(captured) == shapes * (3 if gamma else 2)
    assert shapes <= 9  # 1, 2 or 3 rows; all greedy, some with top-k, or neither
    assert lagged.counters.passes > 2 * shapes


def test_a_step_is_launched_before_the_one_before_it_is_read(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    for name in ("_launch", "_read"):
        honest = getattr(LaggedEngine, name)

        def noted(self: LaggedEngine, *arguments: Any, name: str = name, honest: Any = honest) -> Any:
            log.append(name)
            return honest(self, *arguments)

        monkeypatch.setattr(LaggedEngine, name, noted)
    lagged = engine(lagged="on")
    run(lagged, requests(GREEDY)[:1])
    steps = lagged.counters.steps
    assert steps == MAX_TOKENS - 1
    assert log == ["_launch", *["_launch", "_read"] * (steps - 1), "_read"]


@pytest.mark.parametrize("position", [1, 2, 3, 4, 6])
def test_a_stop_token_cuts_what_comes_after_it_and_the_step_that_ran_on(engine: Make, position: int) -> None:
    whole = [token for step in run(engine(), requests(GREEDY))["1"] for token in step.token_ids]
    stopped = replace(GREEDY, stop_token_ids=(whole[position],))
    lagged = assert_alike(engine, "self", 3, [Request("1", PROMPTS[1], stopped)])
    assert lagged._flight is None
    assert lagged.counters.passes in (lagged.counters.steps, lagged.counters.steps + 1)
    assert run(lagged, [Request("2", PROMPTS[2], GREEDY)]) == run(engine("self", 3), [Request("2", PROMPTS[2], GREEDY)])


@pytest.mark.parametrize(("method", "gamma"), [("none", 0), ("self", 5)])
def test_the_model_length_ends_a_request(engine: Make, method: str, gamma: int) -> None:
    long = SamplingParams(temperature=0.0, max_tokens=1000, ignore_eos=True)
    asked = [Request("a", list(range(17)), long), Request("b", list(range(19)), long), Request("c", [1], long)]
    assert_alike(engine, method, gamma, asked, max_model_len=20)


def test_a_row_that_was_given_up_says_nothing_to_whom_it_goes_next(engine: Make) -> None:
    first, second, third, *_ = requests(GREEDY)
    lagged = engine("pruned", 3, max_batch_size=2, lagged="on")
    for request in (first, second):
        lagged.add(request)
    got: dict[str, list[StepOutput]] = {first.id: [], second.id: [], third.id: []}
    for _ in range(4):
        for output in lagged.step():
            got[output.request_id].append(output)
    lagged.abort(first.id)  # with a step of it under way
    lagged.add(third)
    while lagged.has_work:
        for output in lagged.step():
            got[output.request_id].append(output)
    expected = run(engine("pruned", 3), [first, second, third])
    assert {id: got[id] for id in (second.id, third.id)} == {id: expected[id] for id in (second.id, third.id)}
    assert len(got[first.id]) > 1
    assert got[first.id] == expected[first.id][: len(got[first.id])]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_schedule_of_joins_ends_and_aborts_gives_the_same_steps(engine: Make, data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(["none", "self", "pruned", "reduced"]))
    gamma = 0 if method == "none" else data.draw(st.integers(1, 5))
    lagged = engine(method, gamma, max_batch_size=data.draw(st.integers(1, 4)), lagged="on")
    if data.draw(st.booleans()):
        lagged._capture = capture
    texts = run(engine(max_batch_size=8), requests(GREEDY, SAMPLED))
    said = {id: [token for step in steps for token in step.token_ids] for id, steps in texts.items()}
    got: dict[str, list[StepOutput]] = {}
    asked: list[Request] = []
    aborted: set[str] = set()
    waiting = data.draw(st.permutations(requests(GREEDY, replace(SAMPLED, top_k=50))))
    while waiting or lagged.has_work:
        action = data.draw(st.sampled_from(["join", "step", "step", "step", "abort"]))
        if action == "join" and waiting:
            request = waiting.pop()
            # Some end at a token of plain decoding's output, which may be theirs; some at a length.
            end = data.draw(st.integers(1, MAX_TOKENS))
            stops = (said[request.id][end - 1],) if data.draw(st.booleans()) else ()
            params = replace(request.params, max_tokens=MAX_TOKENS if stops else end, stop_token_ids=stops)
            asked.append(replace(request, params=params))
            got[request.id] = []
            lagged.add(asked[-1])
        elif action == "abort" and got:
            id = data.draw(st.sampled_from(sorted(got)))
            lagged.abort(id)
            aborted |= set() if got[id] and got[id][-1].finish_reason else {id}
        else:
            for output in lagged.step():
                got[output.request_id].append(output)
            assert_cache_is_a_fresh_prefill(lagged)
    expected = run(engine(method, gamma), asked)
    for id, ours in got.items():
        assert ours == (expected[id][: len(ours)] if id in aborted else expected[id])


def test_a_step_sees_all_that_the_one_before_it_may_have_added(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far attention reads is set before that one is read; here each step adds nine tokens, to a text of seven."""
    monkeypatch.setattr(module, "_SPAN", 8)
    whole = Request("a", PROMPTS[0][:6], replace(GREEDY, max_tokens=46))
    assert len(assert_alike(engine, "self", 8, [whole])._steps) == 4


def test_what_is_under_way_is_read_before_a_request_is_admitted(engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have to wait for the prompt, and its time for the host would be the prompt's."""
    under_way = []
    honest = LaggedEngine._admit

    def noted(self: LaggedEngine, *arguments: Any) -> StepOutput:
        under_way.append(self._flight)
        return honest(self, *arguments)

    monkeypatch.setattr(LaggedEngine, "_admit", noted)
    run(engine("pruned", 3, max_batch_size=2, lagged="on"), requests(GREEDY))
    assert under_way == [None] * len(PROMPTS)


def test_log_probabilities_are_of_the_step_that_is_read(engine: Make) -> None:
    asked = requests(replace(GREEDY, logprobs=2), SAMPLED, replace(SAMPLED, logprobs=0))
    lagged = engine("pruned", 3, max_batch_size=3, lagged="on")
    lagged._capture = capture  # whose results lie where those of the step before did
    ours, theirs = run(lagged, asked), run(engine("pruned", 3, max_batch_size=3), asked)
    for id, steps in theirs.items():
        assert [replace(step, logprobs=None) for step in ours[id]] == [replace(step, logprobs=None) for step in steps]
        for step, same in zip(ours[id], steps, strict=True):
            assert (step.logprobs is None) == (same.logprobs is None) == (id in "147")
            for mine, other in zip(step.logprobs or (), same.logprobs or (), strict=True):
                assert mine.token_id == other.token_id
                assert mine.logprob == pytest.approx(other.logprob, abs=1e-4)


def test_the_time_that_the_device_waits_for_the_host_is_the_hosts(engine: Make) -> None:
    lagged = engine("pruned", 3, lagged="on")
    lagged.add(requests(GREEDY)[0])
    begun = time.perf_counter()
    while lagged.has_work:
        lagged.step()
        time.sleep(0.01)
    took, seconds, steps = time.perf_counter() - begun, lagged.counters.seconds, lagged.counters.passes
    assert seconds["host"] >= 0.01 * (steps - 1)
    assert all(seconds[phase] > 0 for phase in ("prefill", "draft", "verify", "accept"))
    assert sum(seconds.values()) <= took


@pytest.mark.parametrize(
    ("method", "gamma", "how", "why"),
    [
        ("ngram", 3, {}, "method ngram drafts on the host"),
        ("suffix", 3, {}, "method suffix drafts on the host"),
        ("layer_skip", 3, {}, "method layer_skip drafts on the host"),
        ("ssd", 3, {}, "method ssd drafts on the host"),
        ("pruned", 3, {"verification": "block"}, "block verification"),
        ("pruned", "adaptive:threshold", {}, "adaptive:threshold.* sets gamma"),
    ],
)
def test_what_needs_the_host_within_a_step_is_refused(
    engine: Make, method: str, gamma: int | str, how: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=f"a step cannot run on the device as a whole: {why}.*Leave --lagged out"):
        engine(method, gamma, lagged="on", **how)
    assert not isinstance(engine(method, gamma, lagged="auto", **how), LaggedEngine)


def test_it_is_asked_for_by_name_and_left_to_gpus_unless_told(engine: Make) -> None:
    assert not any(isinstance(engine(lagged=lagged), LaggedEngine) for lagged in ("off", "auto"))
    with pytest.raises(ValueError, match=r"unknown use of lagged steps 'yes'. Choose from: off, auto, on"):
        engine(lagged="yes")


def test_nothing_is_kept_of_a_request_that_is_gone(engine: Make) -> None:
    lagged = engine("pruned", 3, max_batch_size=2, lagged="on")
    run(lagged, requests(GREEDY, SAMPLED))
    state = lagged._state
    assert not any(bool(t.any()) for t in (state.tokens, state.positions, state.room, state.temperature))
