"""The OpenAI-compatible HTTP server in front of a service."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from aiohttp import web

from specbench.wire.requests import ChatRequest, CompletionRequest, parse
from specbench.wire.responses import answer_to, error_body
from specbench.wire.service import RequestError, Service
from specbench.wire.stream import events

logger = logging.getLogger(__name__)

SERVICE = web.AppKey("service", Service)

MAX_BODY_BYTES = 32 * 2**20
"""A prompt of several million tokens as JSON integers."""

STREAM_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


def make_app(service: Service) -> web.Application:
    """Routes of an OpenAI-compatible server, for `make_runner` or a test server.

    Whatever runs it should set `handler_cancellation=True`: without, a client that leaves is noticed only when the next
    token is written, so a request that still waits keeps its place.
    """
    app = web.Application(middlewares=[errors_as_json], client_max_size=MAX_BODY_BYTES)
    app[SERVICE] = service
    app.add_routes(
        [
            web.get("/health", _health),
            web.get("/version", _version),
            web.get("/v1/models", _models),
            web.get("/metrics", _metrics),
            web.get("/server_info", _server_info),
            web.post("/v1/completions", _completions),
            web.post("/v1/chat/completions", _chat_completions),
        ]
    )
    return app


def make_runner(service: Service) -> web.AppRunner:
    """The application, ready for `setup()` and a site. A client that leaves frees its place; stopping takes ≤ 1 s."""
    return web.AppRunner(make_app(service), handler_cancellation=True, shutdown_timeout=1.0, access_log=None)


async def _health(request: web.Request) -> web.Response:
    if (trouble := request.app[SERVICE].health()) is not None:
        return json_error(trouble, 503)
    return web.Response()


async def _version(request: web.Request) -> web.Response:
    return web.json_response({"version": str(request.app[SERVICE].server_info().get("version", "unknown"))})


async def _models(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    model = {"id": service.model_name, "object": "model", "created": 0, "owned_by": "specbench"}
    if (length := service.server_info().get("max_model_len")) is not None:
        model["max_model_len"] = length
    return web.json_response({"object": "list", "data": [model]})


async def _metrics(request: web.Request) -> web.Response:
    return web.Response(
        body=request.app[SERVICE].prometheus().encode(),
        headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
    )


async def _server_info(request: web.Request) -> web.Response:
    return web.json_response(dict(request.app[SERVICE].server_info()))


async def _completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, CompletionRequest)


async def _chat_completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, ChatRequest)


async def _generate(request: web.Request, body_type: type[CompletionRequest] | type[ChatRequest]) -> web.StreamResponse:
    service = request.app[SERVICE]
    if request.content_type != "application/json":
        raise RequestError(f"Content-Type must be application/json; got {request.content_type}", 415)
    body = parse(body_type, await request.read())
    if body.model not in (None, service.model_name):
        raise RequestError(f"model {body.model!r} is not served here; {service.model_name!r} is", 404, "model")
    generation = await service.submit(body.generation())
    try:
        answer = answer_to(body, service.model_name, generation.prompt_token_ids)
        if body.stream:
            return await _send(request, events(answer, generation))
        deltas = [delta async for delta in generation]
        return web.json_response(answer.whole(deltas, generation.metrics()))
    finally:
        await generation.close()


async def _send(request: web.Request, stream: AsyncGenerator[bytes, None]) -> web.StreamResponse:
    # One write per event, and aiohttp sets TCP_NODELAY: a token leaves when it is made.
    response = web.StreamResponse(headers=STREAM_HEADERS)
    try:
        await response.prepare(request)
        async with aclosing(stream):
            async for event in stream:
                await response.write(event)
        await response.write_eof()
    except ConnectionResetError:
        logger.info("a client left in mid-stream")
    return response


@web.middleware
async def errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Middleware: whatever goes wrong is answered in OpenAI's shape."""
    try:
        return await handler(request)
    except RequestError as error:
        return json_error(str(error), error.status, error.param)
    except web.RequestPayloadError:
        encoding = request.headers.get("Content-Encoding", "none")
        return json_error(f"the body is damaged, or not encoded as its headers say (Content-Encoding: {encoding})", 400)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        response = json_error(f"{request.method} {request.path}: {error.reason}", error.status)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
    except Exception as error:
        logger.exception("a request failed")
        return json_error(f"{type(error).__name__}: {error}", 500)


def json_error(message: str, status: int, param: str | None = None) -> web.Response:
    """An answer in OpenAI's shape for errors."""
    return web.json_response(error_body(message, status, param), status=status)
