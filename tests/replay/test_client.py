from __future__ import annotations

import asyncio
import json
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from specbench.replay.client import StreamingClient
from specbench.replay.raw_log import RawLog, read_raw_log
from specbench.replay.records import RequestAcceptance
from specbench.replay.request import RequestSpec

SPEC = RequestSpec(index=0, prompt_id="p", max_tokens=8, prompt="Olá")
CHAT = RequestSpec(index=1, prompt_id="c", max_tokens=8, messages=({"role": "user", "content": "Olá"},))


@pytest.mark.parametrize("spec", [SPEC, CHAT], ids=["completion", "chat"])
async def test_a_request_to_the_real_application_is_traced_to_the_token(alphabet_url: str, spec: RequestSpec):
    before = time.perf_counter()
    async with StreamingClient(alphabet_url, "alphabet") as client:
        trace = await client.generate(spec)
    assert trace.error is None
    assert trace.text == "abcdefgh"
    assert trace.token_ids == tuple(range(8))
    assert (trace.chunk_tokens, trace.output_tokens) == ((3, 3, 2), 8)
    assert (trace.prompt_tokens, trace.prompt_token_ids, trace.finish_reason) == (3, (7, 8, 9), "length")
    assert trace.acceptance == RequestAcceptance(3, 12, 5, (4, 4, 4), (2, 2, 2))
    moments = [before, trace.scheduled, trace.sent, *trace.chunk_times, trace.finished, time.perf_counter()]
    assert moments == sorted(moments)


async def test_sampling_options_reach_the_server(alphabet: Any, alphabet_url: str):
    spec = RequestSpec(
        index=0,
        prompt_id="p",
        max_tokens=2,
        prompt=(5, 6),
        temperature=0.8,
        top_p=0.95,
        top_k=40,
        seed=11,
        extra={"ignore_eos": True},
    )
    async with StreamingClient(alphabet_url, "alphabet") as client:
        assert (await client.generate(spec)).seed == 11
    (request,) = alphabet.requests
    assert (request.prompt, request.max_tokens, request.temperature) == ((5, 6), 2, 0.8)
    assert (request.top_p, request.top_k, request.seed, request.ignore_eos) == (0.95, 40, 11, True)


async def test_the_clock_starts_when_the_request_was_due(alphabet_url: str):
    due = time.perf_counter() - 3
    async with StreamingClient(alphabet_url, "alphabet") as client:
        trace = await client.generate(SPEC, scheduled=due)
    assert trace.scheduled == due
    assert trace.sent > due + 3


async def test_each_chunk_is_timed_when_it_arrives(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 0.05
    async with StreamingClient(alphabet_url, "alphabet") as client:
        trace = await client.generate(SPEC)
    gaps = [b - a for a, b in zip((trace.sent, *trace.chunk_times), trace.chunk_times, strict=False)]
    # No upper bound: a busy machine may be late, but never early.
    assert min(gaps) > 0.03


async def test_every_received_byte_can_be_kept(alphabet_url: str, tmp_path: Path):
    with RawLog(tmp_path / "events.jsonl") as log:
        async with StreamingClient(alphabet_url, "alphabet", raw_log=log) as client:
            trace = await client.generate(SPEC)
    events = list(read_raw_log(tmp_path / "events.jsonl"))
    assert {event.index for event in events} == {0}
    assert {*trace.chunk_times} <= {event.time for event in events}
    assert b"".join(event.data for event in events).endswith(b"data: [DONE]\n\n")


async def error_of(url: str, **options: Any) -> str:
    async with StreamingClient(url, "alphabet", **options) as client:
        error = (await client.generate(SPEC)).error
    assert error is not None
    return error


async def test_a_refusal_is_quoted(alphabet_url: str):
    async with StreamingClient(alphabet_url, "other") as client:
        trace = await client.generate(SPEC)
    assert trace.error == "the server answered 404: model 'other' is not served here; 'alphabet' is"
    assert (trace.output_tokens, trace.chunk_times) == (0, ())


@pytest.mark.parametrize(
    "body", ["busy", '{"detail": "busy"}', '{"error": "busy"}', '{"object": "error", "message": "busy"}']
)
async def test_errors_of_other_shapes_are_quoted_too(serve: Any, body: str):
    async def busy(_: web.Request) -> web.Response:
        return web.Response(status=429, text=body)

    error = await error_of(await serve(busy))
    assert error.startswith("the server answered 429: ")
    assert "busy" in error


async def test_an_answer_without_end_is_not_kept(serve: Any):
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=500)
        await response.prepare(request)
        with suppress(ConnectionError):
            while True:
                await response.write(bytes(1 << 20))
        return response

    assert "answers with more than 16 MiB" in await error_of(await serve(endless))


async def test_a_server_that_does_not_stream_is_named(serve: Any):
    async def whole(_: web.Request) -> web.Response:
        return web.json_response({"choices": []})

    assert "application/json instead of a stream" in await error_of(await serve(whole))


async def test_a_server_that_hangs_is_given_up(serve: Any):
    async def hang(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(60)
        return response

    assert await error_of(await serve(hang), timeout=0.2) == "the server did not finish within 0.2 s."


async def test_a_connection_that_breaks_keeps_what_came_before(serve: Any):
    async def break_off(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        event = {"choices": [{"text": "a", "token_ids": [1, 2]}]}
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")
        await asyncio.sleep(0.05)
        assert request.transport is not None
        request.transport.abort()
        return response

    async with StreamingClient(await serve(break_off), "alphabet") as client:
        trace = await client.generate(SPEC)
    assert trace.error is not None
    assert trace.error.startswith("the connection to the server broke")
    assert trace.token_ids == (1, 2)


async def test_a_server_that_is_not_there_is_named():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert (await error_of(url)).startswith(f"cannot connect to {url}")


async def test_an_error_inside_a_200_is_an_error(serve: Any):
    async def fail(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"error": {"message": "EngineCore died", "code": 500}}\n\ndata: [DONE]\n\n')
        return response

    assert await error_of(await serve(fail)) == "the server failed in mid-stream: EngineCore died"


async def test_cancelling_frees_the_place_on_the_server(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 30
    async with StreamingClient(alphabet_url, "alphabet") as client:
        request = asyncio.create_task(client.generate(SPEC))
        while not alphabet.requests:
            await asyncio.sleep(0.001)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
    while alphabet.in_flight:
        await asyncio.sleep(0.001)
