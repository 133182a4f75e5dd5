"""The open loop against a server whose queue is known exactly: one request at a time, each taking the same time."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from specbench.errors import SpecbenchError
from specbench.replay.arrivals import Arrival, arrival_offsets
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.open_loop import run_open_loop
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.timeline import e2e, ttft


@dataclass
class SingleQueue:
    """Serves one request at a time, first come, first served, `service` seconds each.

    truth: by prompt, when a request came and when its last byte was written (seconds on the clock of the traces). The
        end of one service is the begin of the next, so that no error of a timer adds up.
    """

    service: float
    truth: dict[int, tuple[float, float]] = field(default_factory=dict)
    free_at: float = 0.0
    waiting: int = 0
    most_waiting: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        came = time.perf_counter()
        body = await request.json()
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        self.free_at = done = max(came, self.free_at) + self.service
        try:
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await asyncio.sleep(max(0.0, done - time.perf_counter()))
            event: dict[str, Any] = {"choices": [{"text": "a", "token_ids": [1], "finish_reason": "stop"}]}
            await response.write(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".encode())
            await response.write_eof()
            self.truth[body["prompt"][0]] = came, time.perf_counter()
        finally:
            self.waiting -= 1
        return response


def requests(count: int) -> list[RequestSpec]:
    return [RequestSpec(index=i, prompt_id=f"p{i}", max_tokens=1, prompt=(i,)) for i in range(count)]


async def overload(server: SingleQueue, url: str, count: int, factor: float) -> ReplayRun:
    """Constant arrivals at `factor` times the rate that the server can serve."""
    offsets = arrival_offsets(Arrival("constant"), count, factor / server.service, 0)
    async with StreamingClient(url, "m") as client:
        return await run_open_loop(client, requests(count), offsets.tolist())


def queue_alone(arrivals: np.ndarray, service: float) -> np.ndarray:
    """Times in a single queue by Lindley's recursion: W(i) = max(0, W(i-1) + S - A(i))."""
    waits = [0.0]
    for gap in np.diff(arrivals):
        waits.append(max(0.0, waits[-1] + service - gap))
    return np.array(waits) + service


async def test_p99_is_the_truth_at_ten_times_what_the_server_can_do(serve: Any) -> None:
    server = SingleQueue(service=0.02)
    run = await overload(server, await serve(server.answer), 150, factor=10)
    measured = np.array([e2e(t) for t in run.traces])
    assert all(t.error is None for t in run.traces)
    logged = np.array([server.truth[t.index][1] - t.scheduled for t in run.traces])
    assert np.percentile(measured, 99) == pytest.approx(np.percentile(logged, 99), rel=0.02)
    # And no part of the queue of theory is missing (a busy machine may serve late, never early).
    theory = queue_alone(np.array([t.scheduled for t in run.traces]), server.service)
    assert np.percentile(measured, 99) >= 0.98 * np.percentile(theory, 99)
    assert server.most_waiting > 100


async def test_a_closed_loop_hides_the_queue_that_an_open_loop_shows(serve: Any) -> None:
    """Coordinated omission: the same server and requests, and the slower it gets the fewer a closed loop sends."""
    server = SingleQueue(service=0.01)
    url = await serve(server.answer)
    open_loop = await overload(server, url, 80, factor=4)
    async with StreamingClient(url, "m") as client:
        closed_loop = await run_closed_loop(client, requests(80), 2)
    shown, hidden = (np.percentile([e2e(t) for t in run.traces], 99) for run in (open_loop, closed_loop))
    assert shown > 5 * hidden


async def test_every_request_leaves_when_due_whatever_is_in_flight(alphabet: Any, alphabet_url: str) -> None:
    alphabet.step_seconds = 0.3
    offsets = [0.0, 0.01, 0.05, 0.05, 0.2]
    async with StreamingClient(alphabet_url, "alphabet") as client:
        run = await run_open_loop(client, requests(5), offsets)
    assert [t.scheduled - run.started for t in run.traces] == pytest.approx(offsets, abs=1e-9)
    assert all(t.sent >= t.scheduled for t in run.traces)
    assert max(t.sent for t in run.traces) < min(t.finished for t in run.traces)
    assert max(alphabet.seen_in_flight) == 5
    assert [t.index for t in run.traces] == list(range(5))


async def test_a_client_that_stalls_counts_its_own_delay(alphabet_url: str) -> None:
    """Latency runs from when a request was due, and how late it left is in its trace."""
    stalled: list[float] = []

    def stall(_: RequestTrace) -> None:
        if not stalled:
            stalled.append(time.perf_counter())
            time.sleep(0.4)

    async with StreamingClient(alphabet_url, "alphabet") as client:
        run = await run_open_loop(client, requests(80), [i * 0.02 for i in range(80)], stall)
    held_up = [t for t in run.traces if stalled[0] < t.scheduled < stalled[0] + 0.2]
    assert held_up
    for trace in held_up:
        left = stalled[0] + 0.4 - trace.scheduled
        assert trace.sent - trace.scheduled >= left
        assert (ttft(trace) or 0) >= left


async def test_cancelling_the_loop_cancels_what_is_in_flight_and_what_is_due(alphabet: Any, alphabet_url: str) -> None:
    alphabet.step_seconds = 30
    async with StreamingClient(alphabet_url, "alphabet") as client:
        loop = asyncio.create_task(run_open_loop(client, requests(6), [0, 0, 0, 60, 60, 60]))
        while alphabet.in_flight < 3:
            await asyncio.sleep(0.001)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
        while alphabet.in_flight:
            await asyncio.sleep(0.001)
    assert len(alphabet.requests) == 3


async def test_a_progress_callback_that_raises_ends_the_loop(alphabet: Any, alphabet_url: str) -> None:
    def stop(_: RequestTrace) -> None:
        raise RuntimeError("enough")

    async with StreamingClient(alphabet_url, "alphabet") as client:
        with pytest.raises(RuntimeError, match="enough"):
            await run_open_loop(client, requests(3), [0, 60, 60], stop)
    while alphabet.in_flight:
        await asyncio.sleep(0.001)


async def test_failed_requests_are_traces_too(alphabet_url: str) -> None:
    async with StreamingClient(alphabet_url, "other") as client:
        run = await run_open_loop(client, requests(3), [0, 0, 0.01])
    assert [t.error is not None for t in run.traces] == [True] * 3


@pytest.mark.parametrize(("count", "offsets"), [(2, [0.0]), (0, [])])
async def test_a_request_without_a_time_is_refused(alphabet_url: str, count: int, offsets: list[float]) -> None:
    async with StreamingClient(alphabet_url, "alphabet") as client:
        with pytest.raises(SpecbenchError, match="a time for each request"):
            await run_open_loop(client, requests(count), offsets)
