"""Token ids from SGLang: with each event of a completion, at the end of a chat."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from specbench.replay.dialect import SGLANG
from specbench.replay.request import RequestSpec
from specbench.replay.transcript import Transcript

CHAT = ({"role": "user", "content": "How many?"},)


@pytest.mark.parametrize("asked", [{"prompt": "How many?"}, {"messages": CHAT}], ids=["completion", "chat"])
async def test_the_ids_are_those_that_the_server_made(simulate: Any, asked: dict[str, Any]) -> None:
    server = await simulate({"engine": "sglang", "step": {"weights_ms": 1}, "output": {"tokens": 20}})
    async with server.client() as client:
        trace = await client.generate(RequestSpec(0, "p", 64, seed=1, **asked))
    assert trace.error is None
    assert trace.output_tokens == len(trace.token_ids or ()) == 20
    assert trace.prompt_tokens == len(trace.prompt_token_ids or ())
    # The server's own endpoint gives the ids of the same prompt.
    body = {"input_ids": list(trace.prompt_token_ids or ()), "sampling_params": {"max_new_tokens": 64}}
    async with aiohttp.ClientSession(server.url) as session, session.post("/generate", json=body) as response:
        assert tuple((await response.json())["output_ids"]) == trace.token_ids


async def test_ids_in_every_event_of_a_chat_are_refused(simulate: Any) -> None:
    server = await simulate({"engine": "sglang"})
    spec = RequestSpec(0, "p", 8, messages=CHAT, extra={"return_token_ids": True})
    async with server.client() as client:
        trace = await client.generate(spec)
    assert (trace.error or "").startswith("the server answered 400: return_token_ids is not supported with streaming")


def test_ids_at_the_end_leave_the_times_of_the_tokens_alone() -> None:
    def event(text: str, total: int, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
        return {"choices": [choice], "usage": {"prompt_tokens": 2, "completion_tokens": total}}

    events = (
        event("a", 1),
        event("bcd", 4, "stop"),
        {"choices": [], "usage": None, "sglext": {"input_ids": [8, 9], "output_ids": [[1, 2, 3, 4]]}},
        {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 4}},
    )
    transcript = Transcript(SGLANG)
    for time, body in enumerate(events, start=1):
        transcript.feed(f"data: {json.dumps(body)}\n\n".encode(), float(time))
    trace = transcript.trace(RequestSpec(0, "p", 8, messages=CHAT), scheduled=0.0, sent=0.0, finished=5.0)
    assert (trace.prompt_token_ids, trace.token_ids) == ((8, 9), (1, 2, 3, 4))
    assert (trace.chunk_times, trace.chunk_tokens) == ((1.0, 2.0), (1, 3))
    assert trace.acceptance is None
