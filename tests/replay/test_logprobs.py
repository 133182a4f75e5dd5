"""Log-probabilities over HTTP, by token id."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specbench.replay.logprobs import LogprobClient, SglangLogprobClient


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


async def test_sglang_is_asked_at_its_own_endpoint_which_tells_ids() -> None:
    bodies = []

    async def generate(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        top = [[[-0.1, 7, None], [-2.5, 8, None]], [[-0.2, 9, None], [-1.9, 7, None]]]
        return web.json_response({"text": "ab", "output_ids": [7, 9], "meta_info": {"output_top_logprobs": top}})

    app = web.Application()
    app.router.add_post("/generate", generate)
    async with TestServer(app) as server, aiohttp.ClientSession(server.make_url("/")) as session:
        given = await SglangLogprobClient(session, "m").go_on([1, 2], max_tokens=2, logprobs=2, seed=5)
    assert given.token_ids == (7, 9)
    assert given.top == ({7: -0.1, 8: -2.5}, {9: -0.2, 7: -1.9})
    assert bodies[0] == {
        "input_ids": [1, 2],
        "sampling_params": {"max_new_tokens": 2, "temperature": 0, "sampling_seed": 5},
        "return_logprob": True,
        "top_logprobs_num": 2,
    }
