"""Every turn is asked, after the answer to the one before, with the conversation so far."""

from __future__ import annotations

from typing import Any

import pytest

from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.open_loop import run_open_loop
from specbench.replay.records import ReplayRun
from specbench.replay.request import RequestSpec


def say(index: int, *contents: str, follows: int | None = None, max_tokens: int = 3) -> RequestSpec:
    messages = tuple({"role": "user", "content": content} for content in contents)
    return RequestSpec(index, f"p{index}", max_tokens, messages=messages, follows=follows)


TALK = [say(0, "Hi", max_tokens=9), say(1, "Other"), say(2, "And?", follows=0), say(3, "So?", follows=2, max_tokens=6)]


def heard(alphabet: Any) -> list[tuple[tuple[str, str], ...]]:
    return [tuple((m["role"], m["content"]) for m in request.messages) for request in alphabet.requests]


async def play(url: str, loop: str, requests: list[RequestSpec] = TALK) -> ReplayRun:
    async with StreamingClient(url, "alphabet") as client:
        if loop == "closed":
            return await run_closed_loop(client, requests, 2)
        return await run_open_loop(client, requests, [0.0] * len(requests))


@pytest.mark.parametrize("loop", ["closed", "open"])
async def test_a_turn_has_all_that_was_said_before_it(alphabet: Any, alphabet_url: str, loop: str) -> None:
    alphabet.step_seconds = 0.005
    run = await play(alphabet_url, loop)
    first = (("user", "Hi"), ("assistant", "abcdefghi"), ("user", "And?"))
    assert sorted(heard(alphabet), key=len) == [
        (("user", "Hi"),),
        (("user", "Other"),),
        first,
        (*first, ("assistant", "abc"), ("user", "So?")),
    ]
    assert [trace.follows for trace in run.traces] == [None, None, 0, 2]
    assert all(trace.error is None for trace in run.traces)
    for trace in run.traces:
        if trace.follows is not None:
            assert trace.sent >= trace.scheduled >= run.traces[trace.follows].finished


async def test_after_a_failure_the_rest_is_not_sent_and_says_why(alphabet: Any, alphabet_url: str) -> None:
    async with StreamingClient(alphabet_url, "another model") as client:
        run = await run_closed_loop(client, TALK, 1)
    assert len(run.traces) == 4
    assert not alphabet.requests
    errors = [trace.error or "" for trace in run.traces]
    assert errors[0].startswith("the server answered 404")
    assert errors[2].startswith("not sent, as the turn before it failed: the server answered 404")
    assert errors[3].startswith("not sent, as the turn before it failed: not sent")


async def test_a_turn_whose_predecessor_is_not_played_stands_alone(alphabet: Any, alphabet_url: str) -> None:
    await play(alphabet_url, "closed", TALK[1:])
    assert (("user", "And?"),) in heard(alphabet)
