"""Sends one request's stream: cut and disturbed as the scenario says, every write in the truth log."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterable, Sequence

from aiohttp import web

from specbench.simulated.byte_stream import ByteStream, Write
from specbench.simulated.chunking import Chunk, Chunker
from specbench.simulated.engine import SimulatedEngine
from specbench.simulated.formats.base import Json
from specbench.simulated.request import Running
from specbench.simulated.scenario import Fault
from specbench.wire import sse
from specbench.wire.app import STREAM_HEADERS
from specbench.wire.responses import error_body

CRASHED = 70
"""Exit code of a server that the scenario crashed."""


class StreamEnds(Exception):
    """A fault ends the stream: `error` is why. answer: whether the client is told, by an event"""

    def __init__(self, error: str, *, told: bool) -> None:
        super().__init__(error)
        self.told = told


class Sender:
    """The stream of one request. `chunk` and `closing` make events, from the tokens and after them."""

    def __init__(self, engine: SimulatedEngine, running: Running, request: web.Request) -> None:
        self._engine, self._running, self._request = engine, running, request
        source = random.Random(f"{engine.scenario.seed}/{running.number}")
        self._chunker = Chunker(engine.scenario.streaming.tokens_per_event, source)
        self._bytes = ByteStream(engine.scenario.streaming, source)
        self._faults = [f for f in engine.scenario.faults if f.strikes(running.number, running.text)]
        self._response = web.StreamResponse(headers=STREAM_HEADERS)
        self._sent = 0

    async def send(self, chunk: Callable[[Chunk], Json], closing: Callable[[], Iterable[Json]]) -> web.StreamResponse:
        """Follow the request to its end. What goes wrong in between is in the stream, or is its end."""
        error = None
        try:
            await self._response.prepare(self._request)
            await self._events(chunk, closing)
        except StreamEnds as end:
            error = str(end)
            if end.told:
                await self._event(sse.event(error_body(error, 500)), 0)
                await self._finish()
        except ConnectionResetError:
            error = "the client left"
        except asyncio.CancelledError:
            error = "the client left"
            raise
        finally:
            self._engine.withdraw(self._running)
            self._engine.truth.write(
                "finish",
                request=self._running.number,
                time=time.perf_counter(),
                reason=None if error else self._running.finish_reason,
                error=error,
            )
        return self._response

    async def _events(self, chunk: Callable[[Chunk], Json], closing: Callable[[], Iterable[Json]]) -> None:
        await self._mishaps()
        try:
            async for emission in self._running:
                for part in self._chunker.feed(emission):
                    self._sent += len(part.tokens)
                    await self._event(sse.event(chunk(part)), len(part.tokens))
                    await self._mishaps()
        except RuntimeError as dead:
            raise StreamEnds(str(dead), told=True) from dead
        for body in closing():
            await self._event(sse.event(body), 0)
        await self._finish()

    async def _finish(self) -> None:
        await self._event(sse.DONE, 0)
        await self._write(self._bytes.flush())
        await self._response.write_eof()

    async def _event(self, event: bytes, tokens: int) -> None:
        await self._write(self._bytes.feed(event, tokens))

    async def _write(self, writes: Iterable[Write]) -> None:
        for write in writes:
            begun = time.perf_counter()
            await self._response.write(write.data)
            self._log(begun, write.events)
            await asyncio.sleep(0)  # else pieces would wait for each other in one packet

    def _log(self, begun: float, events: Sequence[int]) -> None:
        written = time.perf_counter()
        for tokens in events:
            if tokens:
                self._engine.truth.write(
                    "event", request=self._running.number, time=begun, written=written, tokens=tokens
                )

    async def _mishaps(self) -> None:
        for fault in [f for f in self._faults if f.token <= self._sent]:
            self._faults.remove(fault)
            await self._strike(fault)

    async def _strike(self, fault: Fault) -> None:
        what = f"the scenario wants it, after {self._sent} tokens"
        match fault.kind:
            case "stall":
                await self._write(self._bytes.flush())
                await asyncio.sleep(fault.seconds)
            case "disconnect":
                await self._write(self._bytes.flush())
                if self._request.transport is not None:
                    self._request.transport.close()
                raise StreamEnds(f"disconnected: {what}", told=False)
            case "error":
                raise StreamEnds(f"simulated error: {what}", told=True)
            case "engine_death":
                self._engine.die(f"simulated death of the engine: {what}")
            case "crash":
                print(f"Simulated crash: {what}.", flush=True)
                self._engine.truth.close()
                os._exit(CRASHED)
