"""A service that plays a script, served by the real application over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web

from specbench.wire.app import make_runner
from specbench.wire.service import Delta, GenerationRequest, RequestError

SCRIPT = (
    Delta("Bom", (11,)),
    Delta(" dia, mundo", (12, 13, 14)),
    Delta(" ☀️.", (15, 16), finish_reason="stop"),
)
METRICS = {"speculative_decoding": {"num_spec_steps": 2, "num_draft_tokens": 8, "num_accepted_draft_tokens": 3}}


@dataclass
class ScriptedGeneration:
    script: tuple[Delta | BaseException | asyncio.Event, ...]
    prompt_token_ids: tuple[int, ...] = (1, 2, 3, 4)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aiter__(self) -> AsyncIterator[Delta]:
        for item in self.script:
            match item:
                case Delta():
                    yield item
                case asyncio.Event():
                    await item.wait()
                case error:
                    raise error

    def metrics(self) -> Mapping[str, Any] | None:
        return METRICS

    async def close(self) -> None:
        self.closed.set()


@dataclass
class ScriptedService:
    """Plays `script` to every request: deltas are sent, events are waited for, exceptions are raised."""

    script: tuple[Delta | BaseException | asyncio.Event, ...] = SCRIPT
    model_name: str = "demo"
    trouble: str | None = None
    requests: list[GenerationRequest] = field(default_factory=list)
    generations: list[ScriptedGeneration] = field(default_factory=list)

    async def submit(self, request: GenerationRequest) -> ScriptedGeneration:
        if request.max_tokens == 9999:
            raise RequestError("4 prompt tokens and 9999 output tokens exceed 2048", param="max_tokens")
        self.requests.append(request)
        self.generations.append(ScriptedGeneration(self.script))
        return self.generations[-1]

    def health(self) -> str | None:
        return self.trouble

    def prometheus(self) -> str:
        return "# TYPE specbench:steps counter\nspecbench:steps_total 2.0\n"

    def server_info(self) -> Mapping[str, Any]:
        return {"version": "1.2.3", "max_model_len": 2048, "gamma": 4}


@pytest.fixture
def service() -> ScriptedService:
    return ScriptedService()


@pytest.fixture
async def client(service: ScriptedService) -> AsyncIterator[ClientSession]:
    runner = make_runner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with ClientSession(f"http://{host}:{port}") as session:
        yield session
    await runner.cleanup()
