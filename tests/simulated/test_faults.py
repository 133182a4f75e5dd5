"""Each fault strikes one request, with a sentence that says what the client saw; the others do not notice."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from specbench.replay.records import RequestTrace
from specbench.replay.request import RequestSpec
from specbench.replay.timeline import ttft

BASE = {"step": {"weights_ms": 3}, "output": {"tokens": 20}}


async def replay(server: Any, count: int = 4, timeout: float = 30.0) -> list[RequestTrace]:
    """One after the other, so that request i is the i-th to arrive."""
    async with server.client(timeout=timeout) as client:
        specs = [RequestSpec(i, f"p{i}", 64, prompt=f"Prompt number {i}", seed=i) for i in range(count)]
        return [await client.generate(spec) for spec in specs]


@pytest.mark.parametrize(
    ("fault", "sentence", "tokens"),
    [
        ({"kind": "status", "status": 429}, "the server answered 429: simulated refusal of request 1", 0),
        ({"kind": "status", "status": 500}, "the server answered 500: simulated refusal of request 1", 0),
        ({"kind": "error", "token": 8}, "the server failed in mid-stream: simulated error", 8),
        ({"kind": "error", "token": 0}, "the server failed in mid-stream: simulated error", 0),
        ({"kind": "disconnect", "token": 8}, "the connection to the server broke", 8),
        ({"kind": "stall", "token": 8, "seconds": 60}, "the server did not finish within", 8),
    ],
)
async def test_a_fault_is_one_failed_request_that_keeps_what_arrived(
    simulate: Any, fault: dict[str, Any], sentence: str, tokens: int
) -> None:
    server = await simulate({**BASE, "faults": [{**fault, "request": 1}], "streaming": {"tokens_per_event": 1}})
    traces = await replay(server, timeout=5.0 if fault["kind"] == "stall" else 30.0)
    assert [trace.error is None for trace in traces] == [True, False, True, True]
    assert (traces[1].error or "").startswith(sentence)
    assert traces[1].output_tokens >= tokens
    assert [trace.output_tokens for trace in traces if trace.error is None] == [20] * 3


async def test_a_fault_can_wait_for_a_prompt_instead_of_a_place(simulate: Any) -> None:
    server = await simulate({**BASE, "faults": [{"kind": "status", "status": 503, "prompt": "number 2"}]})
    assert [trace.error is None for trace in await replay(server)] == [True, True, False, True]


async def test_a_short_stall_is_a_gap_and_no_failure(simulate: Any) -> None:
    seconds = 0.5
    server = await simulate({**BASE, "faults": [{"kind": "stall", "request": 1, "token": 5, "seconds": seconds}]})
    stalled = (await replay(server, count=2))[1]
    assert stalled.error is None
    assert stalled.output_tokens == 20
    # By the server's clock: a busy client may have seen the chunk before the gap late.
    times = [event.time for event in server.truth().requests[1].events]
    assert max(b - a for a, b in pairwise(times)) >= seconds
    assert stalled.chunk_times[-1] >= times[-1]


async def test_a_slow_prefill_is_in_the_time_to_the_first_token(simulate: Any) -> None:
    server = await simulate({**BASE, "faults": [{"kind": "slow", "request": 0, "seconds": 0.5}]})
    first = (await replay(server, count=1))[0]
    assert (ttft(first) or 0) >= 0.5


async def test_an_engine_that_dies_fails_all_and_says_so_while_http_lives(simulate: Any) -> None:
    server = await simulate({**BASE, "faults": [{"kind": "engine_death", "request": 1, "token": 5}]})
    traces = await replay(server)
    assert [trace.error is None for trace in traces] == [True, False, False, False]
    assert "simulated death of the engine" in (traces[1].error or "")
    assert "the server answered 500" in (traces[3].error or "")
    async with aiohttp.ClientSession(server.url) as session, session.get("/health") as health:
        assert health.status == 503


async def test_a_crash_breaks_what_runs_and_the_log_stays_whole(simulate: Any) -> None:
    server = await simulate({**BASE, "faults": [{"kind": "crash", "request": 1, "token": 5}]})
    traces = await replay(server)
    assert [trace.error is None for trace in traces] == [True, False, False, False]
    assert "the connection to the server broke" in (traces[1].error or "")
    assert all("connect" in (trace.error or "") for trace in traces[2:])
    crashed = server.truth_path.read_text()
    assert crashed.count('"arrival"') == 2
    assert crashed.endswith("\n")


async def test_a_client_that_leaves_frees_its_place(simulate: Any) -> None:
    server = await simulate({"step": {"weights_ms": 5}, "output": {"ends": False}, "max_batch_size": 1})
    async with server.client(timeout=0.5) as client:
        left = await client.generate(RequestSpec(0, "p0", 2_000, prompt="one", seed=0))
    assert "did not finish" in (left.error or "")
    async with server.client() as client:
        assert (await client.generate(RequestSpec(1, "p1", 8, prompt="two", seed=1))).error is None


async def test_a_slow_start_is_waited_for(simulate: Any) -> None:
    begun = asyncio.get_running_loop().time()
    server = await simulate({**BASE, "start_seconds": 1.0})
    assert asyncio.get_running_loop().time() - begun >= 1.0
    assert (await replay(server, count=1))[0].error is None
