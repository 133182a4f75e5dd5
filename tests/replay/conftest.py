"""Servers to replay into: the real application in front of a small service, and handlers that write any bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from specbench.wire.app import make_runner
from specbench.wire.service import Delta, GenerationRequest


@dataclass
class Alphabet:
    """A generation of `max_tokens` letters, at most `per_step` a step: token id k is the k-th letter."""

    service: AlphabetService
    length: int
    prompt_token_ids: tuple[int, ...] = (7, 8, 9)

    async def __aiter__(self) -> AsyncIterator[Delta]:
        for start in range(0, self.length, self.service.per_step):
            await asyncio.sleep(self.service.step_seconds)
            ids = tuple(range(start, min(start + self.service.per_step, self.length)))
            ended = ids[-1] + 1 == self.length
            yield Delta("".join(chr(97 + i % 26) for i in ids), ids, finish_reason="length" if ended else None)

    def metrics(self) -> Mapping[str, Any]:
        steps = -(-self.length // self.service.per_step)
        return {
            "speculative_decoding": {
                "num_spec_steps": steps,
                "num_draft_tokens": steps * 4,
                "num_accepted_draft_tokens": self.length - steps,
                "per_step_drafted": [4] * steps,
                "per_step_accepted": [self.service.per_step - 1] * steps,
            }
        }

    async def close(self) -> None:
        self.service.in_flight -= 1


@dataclass
class AlphabetService:
    per_step: int = 3
    step_seconds: float = 0.0
    model_name: str = "alphabet"
    in_flight: int = 0
    seen_in_flight: list[int] = field(default_factory=list)
    requests: list[GenerationRequest] = field(default_factory=list)

    async def submit(self, request: GenerationRequest) -> Alphabet:
        self.in_flight += 1
        self.seen_in_flight.append(self.in_flight)
        self.requests.append(request)
        return Alphabet(self, request.max_tokens or 1)

    def health(self) -> str | None:
        return None

    def prometheus(self) -> str:
        return ""

    def server_info(self) -> Mapping[str, Any]:
        return {}


async def _start(runner: web.AppRunner, stack: AsyncExitStack) -> str:
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def alphabet() -> AlphabetService:
    return AlphabetService()


@pytest.fixture
async def alphabet_url(alphabet: AlphabetService, stack: AsyncExitStack) -> str:
    return await _start(make_runner(alphabet), stack)


Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]


@pytest.fixture
def serve(stack: AsyncExitStack) -> Serve:
    """Start a server whose every answer comes from one function; gives its base URL."""

    async def start(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> str:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        return await _start(web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1), stack)

    return start
