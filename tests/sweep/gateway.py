"""A server that keeps no secret: it lets in who has the key, and repeats the key wherever a server can say something.

python gateway.py PORT KEY
"""

from __future__ import annotations

import asyncio
import json
import sys

from aiohttp import web

from specbench.sweep.attaching import TRIAL_TOKENS

PORT, KEY = int(sys.argv[1]), sys.argv[2]
answered = 0


def event(text: str, **fields: object) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return f"data: {json.dumps({'choices': [choice], **fields})}\n\n".encode()


async def stream(request: web.Request) -> web.StreamResponse:
    """Answers in turn: sound, turned away, broken off by an error event, with half of the key in each of two reads.

    The request by which a sweep finds out how to ask is answered soundly, whenever it comes.
    """
    global answered
    is_trial = (await request.json())["max_tokens"] == TRIAL_TOKENS
    answered += 1
    turn = 1 if is_trial or answered <= 3 else answered % 6
    if turn == 0:
        return web.json_response({"error": {"message": f"slow down, {KEY}"}}, status=429, headers={"Retry-After": "7"})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    if turn == 3:
        await response.write(event("one ") + f'data: {{"error": {{"message": "{"." * 190} {KEY}"}}}}\n\n'.encode())
        return response
    whole = event("one two ") + event(f"your key is {KEY}") + event("", usage={"completion_tokens": 5})
    middle = whole.index(KEY.encode()) + len(KEY) // 2
    for part in (whole[:middle], whole[middle:]):
        await response.write(part)
        await asyncio.sleep(0.02)
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}}
    await response.write(f"data: {json.dumps(last)}\n\ndata: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
    return response


@web.middleware
async def locked(request: web.Request, handler: object) -> web.StreamResponse:
    if request.path == "/health":
        return web.Response()
    if request.headers.get("Authorization") != f"Bearer {KEY}":
        return web.json_response(
            {"error": {"message": f"{request.headers.get('Authorization')} is no key"}}, status=401
        )
    return await handler(request)  # type: ignore[operator,no-any-return]


async def models(request: web.Request) -> web.Response:
    return web.json_response({"data": [{"id": "m", "owned_by": "somebody", "note": KEY}]})


async def told(request: web.Request) -> web.Response:
    return web.json_response({"version": f"1-{KEY}", "api_key": KEY, "motd": f"{KEY}", "nested": [{"x": KEY}]})


async def metrics(request: web.Request) -> web.Response:
    return web.Response(text=f'# TYPE made counter\nmade_total{{key="{KEY}"}} 1\n')


app = web.Application(middlewares=[locked])
app.add_routes(
    [
        web.get("/health", models),
        web.get("/v1/models", models),
        *(web.get(path, told) for path in ("/version", "/server_info", "/info", "/props")),
        web.get("/metrics", metrics),
        web.post("/v1/chat/completions", stream),
        web.post("/v1/completions", stream),
    ]
)
web.run_app(app, host="127.0.0.1", port=PORT, print=None)
