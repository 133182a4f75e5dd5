from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import ClientConnectionError, ClientSession

from specbench.wire.app import MAX_BODY_BYTES
from specbench.wire.service import Delta, RequestError, TokenLogprob

TEXT = "Bom dia, mundo ☀️."
IDS = [11, 12, 13, 14, 15, 16]
USAGE = {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}
PROMPTS: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "Olá"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Olá"}]},
}
endpoints = pytest.mark.parametrize("path", PROMPTS)


async def stream(client: ClientSession, path: str, **fields: Any) -> list[dict[str, Any]]:
    """The events' bodies, once the stream is known to have ended as it should."""
    async with client.post(path, json={**PROMPTS[path], "stream": True, **fields}) as response:
        assert response.status == 200
        assert response.content_type == "text/event-stream"
        *events, done, rest = (await response.text()).split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


def text_of(choice: dict[str, Any]) -> str:
    return choice["text"] if "text" in choice else choice["delta"]["content"]


@endpoints
async def test_a_stream_has_one_event_per_delta_and_the_whole_text(client: ClientSession, path: str):
    events = await stream(client, path)
    assert [text_of(event["choices"][0]) for event in events] == ["Bom", " dia, mundo", " ☀️."]
    assert [event["choices"][0]["finish_reason"] for event in events] == [None, None, "stop"]
    assert len({event["id"] for event in events}) == 1
    assert {event["model"] for event in events} == {"demo"}
    assert not any("usage" in event or "token_ids" in event["choices"][0] for event in events)


async def test_the_role_comes_once_with_the_first_tokens(client: ClientSession):
    events = await stream(client, "/v1/chat/completions")
    assert [event["choices"][0]["delta"].get("role") for event in events] == ["assistant", None, None]


@endpoints
async def test_token_ids_come_with_each_chunk_when_asked(client: ClientSession, path: str):
    events = await stream(client, path, return_token_ids=True)
    assert [event["choices"][0]["token_ids"] for event in events] == [[11], [12, 13, 14], [15, 16]]


async def test_prompt_token_ids_come_first_and_where_vllm_puts_them(client: ClientSession):
    completion = await stream(client, "/v1/completions", return_token_ids=True)
    assert ["prompt_token_ids" in event["choices"][0] for event in completion] == [True, False, False]
    assert completion[0]["choices"][0]["prompt_token_ids"] == [1, 2, 3, 4]
    chat = await stream(client, "/v1/chat/completions", return_token_ids=True)
    assert ["prompt_token_ids" in event for event in chat] == [True, False, False]
    assert chat[0]["prompt_token_ids"] == [1, 2, 3, 4]


@endpoints
async def test_usage_and_metrics_come_last_when_asked(client: ClientSession, path: str):
    *_, last = await stream(client, path, stream_options={"include_usage": True})
    assert last["choices"] == []
    assert last["usage"] == USAGE
    assert last["metrics"]["speculative_decoding"]["num_accepted_draft_tokens"] == 3


@endpoints
async def test_continuous_usage_counts_up_to_each_chunk(client: ClientSession, path: str):
    events = await stream(client, path, stream_options={"continuous_usage_stats": True})
    assert [event["usage"]["completion_tokens"] for event in events] == [1, 4, 6]


@endpoints
async def test_a_whole_answer_carries_the_same(client: ClientSession, path: str):
    async with client.post(path, json={**PROMPTS[path], "return_token_ids": True}) as response:
        body = await response.json()
    choice = body["choices"][0]
    assert (choice["text"] if "text" in choice else choice["message"]["content"]) == TEXT
    assert (choice["token_ids"], choice["finish_reason"], body["usage"]) == (IDS, "stop", USAGE)
    assert body["metrics"]["speculative_decoding"]["num_spec_steps"] == 2


LOGPROBS = (
    Delta("a", (1,), (TokenLogprob(1, "a", -0.5, ((1, "a", -0.5), (9, "b", -1.5))),)),
    Delta("bc", (2, 3), (TokenLogprob(2, "b", -0.1), TokenLogprob(3, "c", -0.2)), "length"),
)


async def test_completion_logprobs_have_openais_shape_and_running_offsets(client: ClientSession, service: Any):
    service.script = LOGPROBS
    first, second = await stream(client, "/v1/completions", logprobs=2)
    assert first["choices"][0]["logprobs"] == {
        "tokens": ["a"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"a": -0.5, "b": -1.5}],
        "text_offset": [0],
    }
    assert second["choices"][0]["logprobs"]["text_offset"] == [1, 2]
    assert service.requests[0].logprobs == 2


async def test_tokens_can_be_named_by_id_so_that_equal_texts_stay_apart(client: ClientSession, service: Any):
    service.script = LOGPROBS
    first, _ = await stream(client, "/v1/completions", logprobs=2, return_tokens_as_token_ids=True)
    assert first["choices"][0]["logprobs"]["top_logprobs"] == [{"token_id:1": -0.5, "token_id:9": -1.5}]


async def test_chat_logprobs_have_openais_shape(client: ClientSession, service: Any):
    service.script = LOGPROBS
    path = "/v1/chat/completions"
    async with client.post(path, json={**PROMPTS[path], "logprobs": True, "top_logprobs": 2}) as response:
        content = (await response.json())["choices"][0]["logprobs"]["content"]
    assert [entry["token"] for entry in content] == ["a", "b", "c"]
    assert content[0]["top_logprobs"][1] == {"token": "b", "logprob": -1.5, "bytes": [98]}


async def test_a_token_leaves_when_it_is_made(client: ClientSession, service: Any):
    gate = asyncio.Event()
    service.script = (Delta("now", (1,)), gate, Delta(" later", (2,), finish_reason="stop"))
    async with client.post("/v1/completions", json={"prompt": "a", "stream": True}) as response:
        assert b"now" in await response.content.readuntil(b"\n\n")
        gate.set()
        assert b" later" in await response.content.readuntil(b"\n\n")


@endpoints
async def test_a_failure_in_mid_stream_is_an_event_and_the_stream_still_ends(
    client: ClientSession, service: Any, path: str
):
    service.script = (Delta("a", (1,)), RuntimeError("out of memory"))
    first, last = await stream(client, path)
    assert text_of(first["choices"][0]) == "a"
    assert last["error"]["code"] == 500
    assert "out of memory" in last["error"]["message"]
    assert service.generations[0].closed.is_set()


@endpoints
async def test_a_failure_of_a_whole_answer_is_a_500(client: ClientSession, service: Any, path: str):
    service.script = (Delta("a", (1,)), RuntimeError("out of memory"))
    async with client.post(path, json=PROMPTS[path]) as response:
        assert response.status == 500
        assert "out of memory" in (await response.json())["error"]["message"]


async def test_a_refusal_in_mid_stream_keeps_its_code(client: ClientSession, service: Any):
    service.script = (RequestError("the context is full", param="prompt"),)
    (event,) = await stream(client, "/v1/completions")
    assert event["error"] == {
        "message": "the context is full",
        "type": "invalid_request_error",
        "param": "prompt",
        "code": 400,
    }


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_client_that_leaves_frees_its_place_even_while_nothing_is_sent(
    client: ClientSession, service: Any, streamed: bool
):
    service.script = (Delta("a", (1,)), asyncio.Event())
    request = asyncio.create_task(client.post("/v1/completions", json={"prompt": "a", "stream": streamed}))
    while not service.generations:
        await asyncio.sleep(0)
    if streamed:
        (await request).close()
    else:
        request.cancel()
    await asyncio.wait_for(service.generations[0].closed.wait(), timeout=10)


async def test_a_finished_request_is_closed_too(client: ClientSession, service: Any):
    await stream(client, "/v1/completions")
    assert service.generations[0].closed.is_set()


async def refusal(client: ClientSession, method: str, path: str, **request: Any) -> tuple[int, dict[str, Any]]:
    async with client.request(method, path, **request) as response:
        return response.status, (await response.json())["error"]


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        ({"data": b"{", "headers": {"Content-Type": "application/json"}}, 400, "not JSON"),
        ({"json": {}}, 400, "prompt is missing"),
        ({"json": {"prompt": "a", "temperature": -1}}, 400, "temperature"),
        ({"json": {"prompt": "a", "max_tokens": 9999}}, 400, "exceed 2048"),
        ({"json": {"prompt": "a", "model": "other"}}, 404, "'demo' is"),
        ({"data": "prompt=a"}, 415, "application/json"),
        (
            {
                "data": b'{"prompt": "a"}',
                "headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"},
            },
            400,
            "Content-Encoding: gzip",
        ),
    ],
)
async def test_a_refused_request_gets_a_reason_in_openais_shape(
    client: ClientSession, service: Any, request_: dict[str, Any], status: int, reason: str
):
    got, error = await refusal(client, "POST", "/v1/completions", **request_)
    assert got == status == error["code"]
    assert reason in error["message"]
    assert set(error) == {"message", "type", "param", "code"}
    assert service.requests == []


async def test_unknown_paths_and_wrong_methods_answer_in_the_same_shape(client: ClientSession):
    assert (await refusal(client, "GET", "/v1/completion"))[0] == 404
    status, error = await refusal(client, "GET", "/v1/completions")
    assert (status, error["code"]) == (405, 405)


async def test_a_body_beyond_the_limit_is_a_413(client: ClientSession):
    try:
        status, error = await refusal(client, "POST", "/v1/completions", json={"prompt": "a" * MAX_BODY_BYTES})
    except ClientConnectionError:
        pytest.skip("the server closed the connection before its answer could be read")
    assert (status, error["code"]) == (413, 413)


async def test_service_endpoints(client: ClientSession, service: Any):
    assert (await client.get("/health")).status == 200
    assert await (await client.get("/version")).json() == {"version": "1.2.3"}
    models = await (await client.get("/v1/models")).json()
    assert [(model["id"], model["max_model_len"]) for model in models["data"]] == [("demo", 2048)]
    metrics = await client.get("/metrics")
    assert metrics.content_type == "text/plain"
    assert "specbench:steps_total 2.0" in await metrics.text()
    assert (await (await client.get("/server_info")).json())["gamma"] == 4
    service.trouble = "the engine stopped"
    assert await refusal(client, "GET", "/health") == (
        503,
        {"message": "the engine stopped", "type": "internal_error", "param": None, "code": 503},
    )
