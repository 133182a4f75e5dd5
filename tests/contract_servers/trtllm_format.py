"""What differs in the endpoints of a `trtllm-serve` from one version and one setting to another."""

from __future__ import annotations

import asyncio
import json
import time

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

from specbench.simulated.formats.base import Json
from specbench.simulated.formats.tensorrt_llm import TensorrtLlmFormat

IDLE_SECONDS = 0.3
"""How long /metrics waits for an iteration before it says that there is none; the real one waits 2 s."""


def contract_format(version_: str, *, overlap: bool, told: bool) -> type[TensorrtLlmFormat]:
    """told: whether iterations are counted at all"""
    mode = {} if version_.startswith("1.2") else {"schedulerMode": "overlap" if overlap else "non_overlap"}

    class Format(TensorrtLlmFormat):
        version = version_
        skipped = 0

        def metrics(self) -> web.Response:
            return Drained(self) if told else web.json_response([])

        def drained(self) -> list[Json]:
            iterations = []
            for entry in super().drained():
                iterations.append({**entry, **mode, "iter": entry["iter"] + self.skipped})
                # With overlap there is a pass without requests after the last one, which is counted and not told.
                self.skipped += overlap and not entry["numActiveRequests"] + entry["numQueuedRequests"]
            return iterations

    return Format


class Drained(web.Response):
    """The iterations since the last reading, taken away by it; an idle engine is waited for."""

    def __init__(self, engine_format: TensorrtLlmFormat) -> None:
        super().__init__(content_type="application/json")
        self._format = engine_format

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        deadline = time.perf_counter() + IDLE_SECONDS
        while not self._format.engine.tally.iterations and time.perf_counter() < deadline:
            await asyncio.sleep(0.02)
        self.text = json.dumps(self._format.drained())
        return await super().prepare(request)
