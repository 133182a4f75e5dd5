"""The known-truth engine in virtual time: thousands of requests in seconds, and no machine's load in any of them."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specbench.replay.records import RequestTrace
from specbench.simulated.engine import SimulatedEngine
from specbench.simulated.scenario import Scenario
from specbench.simulated.truth import TruthLog
from specbench.wire.service import GenerationRequest


class _JumpingSelector(selectors.SelectSelector):
    """Waits for nothing: time jumps to when something is due."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self.clock = _JumpingSelector()
        super().__init__(self.clock)

    def time(self) -> float:
        return self.clock.now


def run(monkeypatch: pytest.MonkeyPatch, main: Coroutine[Any, Any, list[RequestTrace]]) -> list[RequestTrace]:
    """Run a loop of requests on one clock for engine and event loop, which stands still while anything computes."""
    loop = _VirtualLoop()
    monkeypatch.setattr("specbench.simulated.engine.time", SimpleNamespace(perf_counter=loop.time))
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


async def closed_loop(
    scenario: Scenario, speculation: dict[str, Any], slots: int, requests: int, truth: Path | None = None
) -> list[RequestTrace]:
    """`slots` requests kept in flight, until so many are done."""
    left = iter(range(requests))

    async def slot(engine: SimulatedEngine) -> list[RequestTrace]:
        return [await _request(engine, number, _now()) for number in left]

    return await _served(scenario, speculation, slots, lambda engine: [slot(engine) for _ in range(slots)], truth)


async def open_loop(
    scenario: Scenario, speculation: dict[str, Any], limit: int, offsets: Sequence[float]
) -> list[RequestTrace]:
    """A request at each time, served `limit` at once."""

    async def arrival(engine: SimulatedEngine, number: int, due: float) -> list[RequestTrace]:
        await asyncio.sleep(due - _now())
        return [await _request(engine, number, due)]

    return await _served(
        scenario, speculation, limit, lambda engine: [arrival(engine, i, due) for i, due in enumerate(offsets)]
    )


async def _served(
    scenario: Scenario,
    speculation: dict[str, Any],
    limit: int,
    clients: Callable[[SimulatedEngine], Sequence[Awaitable[list[RequestTrace]]]],
    truth: Path | None = None,
) -> list[RequestTrace]:
    engine = SimulatedEngine(scenario, TruthLog(truth), max_batch_size=limit, **speculation)
    work = asyncio.ensure_future(engine.run())
    done = await asyncio.gather(*clients(engine))
    work.cancel()
    return sorted((trace for traces in done for trace in traces), key=lambda t: t.index)


async def _request(engine: SimulatedEngine, number: int, due: float) -> RequestTrace:
    prompt = (*range(20, 40), number)
    asked = GenerationRequest(prompt=prompt, max_tokens=400, temperature=0.0)
    running = engine.submit(engine.next_number(), prompt, "", asked)
    times: list[float] = []
    tokens: list[int] = []
    async for emission in running:
        times.append(_now())
        tokens.append(len(emission.tokens))
    return RequestTrace(
        index=number,
        prompt_id=str(number),
        category=None,
        scheduled=due,
        sent=due,
        finished=times[-1],
        chunk_times=tuple(times),
        chunk_tokens=tuple(tokens),
        prompt_tokens=21,
        output_tokens=sum(tokens),
        prompt_token_ids=None,
        token_ids=None,
        text=f"answer {number}",
        finish_reason=running.finish_reason,
        error=None,
        seed=None,
        acceptance=None,
    )


def _now() -> float:
    return asyncio.get_running_loop().time()
