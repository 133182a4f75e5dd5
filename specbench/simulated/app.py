"""The HTTP server of the known-truth engine, in the format of the engine that the scenario names."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from specbench.simulated.chunking import Chunk
from specbench.simulated.engine import SimulatedEngine
from specbench.simulated.formats.base import EngineFormat, Json
from specbench.simulated.mark import HEADER
from specbench.simulated.request import Emission, Running
from specbench.simulated.sending import Sender
from specbench.simulated.tokens import chat_text, prompt_tokens, token_text
from specbench.wire.app import MAX_BODY_BYTES, errors_as_json, json_error
from specbench.wire.requests import ChatRequest, CompletionRequest, parse
from specbench.wire.responses import answer_to
from specbench.wire.service import Delta, GenerationRequest, RequestError


class SimulatedApp:
    """Routes in front of an engine. `ready_at`: until then the server is starting (perf_counter)."""

    def __init__(self, engine: SimulatedEngine, engine_format: EngineFormat) -> None:
        self._engine, self._format = engine, engine_format
        self._ready_at = time.perf_counter() + engine.scenario.start_seconds

    def make_runner(self) -> web.AppRunner:
        app = web.Application(middlewares=[errors_as_json], client_max_size=MAX_BODY_BYTES)
        app.add_routes(
            [
                *(web.get(path, self._health) for path in self._format.health_paths),
                web.get("/version", self._version),
                web.get("/v1/models", self._models),
                web.get("/metrics", self._metrics),
                web.get("/server_info", self._server_info),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat_completions),
                *self._format.routes(),
            ]
        )
        if self._engine.scenario.engine == "sglang":
            app.add_routes([web.post("/generate", self._generate)])
        app.on_response_prepare.append(self._mark)
        return web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None)

    async def _mark(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers[HEADER] = self._engine.scenario.name

    async def _health(self, request: web.Request) -> web.Response:
        if time.perf_counter() < self._ready_at:
            return json_error("the simulated server is starting", 503)
        if self._engine.failure is not None:
            return json_error(self._engine.failure, 503)
        return web.Response()

    async def _version(self, request: web.Request) -> web.Response:
        return web.json_response({"version": self._format.version})

    async def _models(self, request: web.Request) -> web.Response:
        model = {"id": self._format.model_name, "object": "model", "created": 0, "owned_by": "specbench"}
        return web.json_response({"object": "list", "data": [{**model, "max_model_len": self._engine.max_model_len}]})

    async def _metrics(self, request: web.Request) -> web.Response:
        return self._format.metrics()

    async def _server_info(self, request: web.Request) -> web.Response:
        """The engine's own answer, and what no engine says: that this one is simulated."""
        engine = self._engine
        told = {
            "engine": engine.scenario.engine,
            "scenario": engine.scenario.name,
            "method": engine.method,
            "gamma": engine.gamma,
            "schedule": engine.schedule,
            "max_batch_size": engine.max_batch_size,
            "max_model_len": engine.max_model_len,
            "prefix_caching": engine.prefix_caching,
            "kv_capacity_tokens": engine.scenario.kv_capacity_tokens,
        }
        return web.json_response({**self._format.server_info(), "simulated": told})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, CompletionRequest)

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        return await self._answer(request, ChatRequest)

    async def _answer(
        self, request: web.Request, body_type: type[CompletionRequest] | type[ChatRequest]
    ) -> web.StreamResponse:
        raw = await request.read()
        body = parse(body_type, raw)
        asked: Mapping[str, Any] = json.loads(raw)
        self._format.check(asked)
        running = self._submit(body.generation())
        answer = answer_to(body, self._format.model_name, running.prompt)
        if body.stream:
            return await Sender(self._engine, running, request).send(
                lambda chunk: self._format.chunk(answer.chunk(_delta(chunk)), running),
                lambda: self._format.closing(asked, answer, running),
            )
        deltas = [_delta(emission) for emission in await self._collect(running)]
        return web.json_response(self._format.whole(answer.whole(deltas, None), asked, running))

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        """SGLang's own endpoint: tokens so far in every event, and what it counted in the last."""
        from specbench.simulated.formats.sglang import GenerateRequest, SglangFormat

        assert isinstance(self._format, SglangFormat)
        sglang = self._format
        asked = parse(GenerateRequest, await request.read())
        running = self._submit(asked.generation())
        tokens: list[int] = []

        def so_far(chunk: Chunk | Emission) -> Json:
            tokens.extend(chunk.tokens)
            text = "".join(map(token_text, tokens))
            info = sglang.meta_info(running) | {"completion_tokens": len(tokens)}
            if chunk.finish_reason is None:
                info = {name: info[name] for name in ("prompt_tokens", "completion_tokens")} | {"finish_reason": None}
            return {"text": text, "output_ids": list(tokens), "meta_info": info}

        if asked.stream:
            return await Sender(self._engine, running, request).send(so_far, list)
        for emission in await self._collect(running):
            body = so_far(emission)
        return web.json_response(body)

    def _submit(self, generation: GenerationRequest) -> Running:
        """Take a request in. Raises RequestError where it is refused, or is to be."""
        if self._engine.failure is not None:
            raise RequestError(self._engine.failure, 500)
        if generation.messages is not None:
            text = chat_text(generation.messages)
        else:
            text = generation.prompt if isinstance(generation.prompt, str) else ""
        prompt = generation.prompt if isinstance(generation.prompt, tuple) else prompt_tokens(text)
        number = self._engine.next_number()
        for fault in self._engine.scenario.faults:
            if fault.kind == "status" and fault.strikes(number, text):
                raise RequestError(f"simulated refusal of request {number}", fault.status)
        return self._engine.submit(number, prompt, text, generation)

    async def _collect(self, running: Running) -> list[Emission]:
        """All that a request gives, for an answer in one piece."""
        try:
            emissions = [emission async for emission in running]
        finally:
            self._engine.withdraw(running)
        now = time.perf_counter()
        tokens = sum(len(emission.tokens) for emission in emissions)
        self._engine.truth.write("event", request=running.number, time=now, written=now, tokens=tokens)
        self._engine.truth.write("finish", request=running.number, time=now, reason=running.finish_reason, error=None)
        return emissions


def _delta(part: Chunk | Emission) -> Delta:
    return Delta("".join(map(token_text, part.tokens)), part.tokens, finish_reason=part.finish_reason)
