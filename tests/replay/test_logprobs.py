"""Log-probabilities over HTTP, by token id."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specbench.replay.logprobs import LogprobClient


async def ask(answer: dict[str, object], **sampling: float) -> tuple[object, dict[str, object]]:
    bodies = []

    async def completions(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"choices": [answer]})

    app = web.Application()
    app.router.add_post("/v1/completions", completions)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        return await LogprobClient(session, "m").go_on([1, 2], **sampling), bodies[0]


async def test_tokens_are_told_apart_by_id_and_not_by_text() -> None:
    top = [{"token_id:7": -0.1, "token_id:8": -2.5}]
    given, body = await ask({"token_ids": [7], "logprobs": {"top_logprobs": top}}, temperature=0.8, top_p=0.95)
    assert given.token_ids == (7,)  # type: ignore[attr-defined]
    assert given.top == ({7: -0.1, 8: -2.5},)  # type: ignore[attr-defined]
    assert (body["temperature"], body["top_p"], body["return_tokens_as_token_ids"]) == (0.8, 0.95, True)


async def test_it_is_greedy_unless_told_otherwise() -> None:
    _, body = await ask({"token_ids": [7], "logprobs": {"top_logprobs": [{"token_id:7": 0.0}]}})
    assert body["temperature"] == 0


@pytest.mark.parametrize(
    "answer",
    [
        {"token_ids": [7], "logprobs": None},
        {"token_ids": [7], "logprobs": {"top_logprobs": [{"seven": -0.1}]}},
        {"logprobs": {"top_logprobs": []}},
    ],
)
async def test_an_engine_that_does_not_answer_so_is_noticed(answer: dict[str, object]) -> None:
    with pytest.raises((LookupError, TypeError, ValueError)):
        await ask(answer)
