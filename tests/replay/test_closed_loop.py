from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.records import ReplayRun, RequestTrace
from specbench.replay.request import RequestSpec


def requests(lengths: list[int]) -> list[RequestSpec]:
    return [
        RequestSpec(index=i, prompt_id=f"p{i}", max_tokens=length, prompt=(i + 1,)) for i, length in enumerate(lengths)
    ]


LENGTHS = [9, 3, 27, 6, 12, 3, 15, 9, 3, 21, 6, 3]


async def run(url: str, batch_size: int, lengths: list[int] = LENGTHS) -> tuple[ReplayRun, list[RequestTrace]]:
    progress: list[RequestTrace] = []
    async with StreamingClient(url, "alphabet") as client:
        return await run_closed_loop(client, requests(lengths), batch_size, progress.append), progress


@pytest.mark.parametrize("batch_size", [1, 3, 12])
async def test_exactly_the_batch_size_is_in_flight(alphabet: Any, alphabet_url: str, batch_size: int):
    alphabet.step_seconds = 0.002
    loop, _ = await run(alphabet_url, batch_size)
    assert max(alphabet.seen_in_flight) == batch_size
    ends = sorted(trace.finished for trace in loop.traces)
    refilled = [loop.started, *ends[: len(LENGTHS) - batch_size + 1]]
    for moment in ((a + b) / 2 for a, b in itertools.pairwise(refilled)):
        assert sum(trace.scheduled <= moment <= trace.finished for trace in loop.traces) == batch_size
    assert [trace.output_tokens for trace in loop.traces] == LENGTHS


async def test_requests_go_out_in_order_and_traces_come_back_in_order(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 0.002
    loop, progress = await run(alphabet_url, 3)
    assert [trace.index for trace in loop.traces] == list(range(len(LENGTHS)))
    sent = [trace.sent for trace in loop.traces]
    assert sent == sorted(sent)
    finished = [trace.finished for trace in progress]
    assert finished == sorted(finished)
    assert len(progress) == len(LENGTHS)


async def test_a_requests_clock_starts_when_its_slot_became_free(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 0.002
    loop, _ = await run(alphabet_url, 2)
    free = sorted([loop.started, loop.started, *(trace.finished for trace in loop.traces)])
    assert [trace.scheduled for trace in loop.traces] == free[: len(LENGTHS)]
    assert loop.finished >= free[-1]


async def test_the_clients_own_lag_is_reported(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 0.02
    loop, _ = await run(alphabet_url, 2)
    assert loop.client_lag_p99 is not None
    assert loop.client_lag_p99 >= 0


async def test_failed_requests_are_traces_too(alphabet_url: str):
    async with StreamingClient(alphabet_url, "other") as client:
        loop = await run_closed_loop(client, requests([3, 3, 3]), 2)
    assert len(loop.traces) == 3
    assert all(trace.error is not None for trace in loop.traces)


async def test_cancelling_the_loop_cancels_what_is_in_flight(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 30
    async with StreamingClient(alphabet_url, "alphabet") as client:
        loop = asyncio.create_task(run_closed_loop(client, requests(LENGTHS), 4))
        while alphabet.in_flight < 4:
            await asyncio.sleep(0.001)
        loop.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loop
        while alphabet.in_flight:
            await asyncio.sleep(0.001)
    assert len(alphabet.requests) == 4


async def test_a_progress_callback_that_raises_ends_the_loop(alphabet: Any, alphabet_url: str):
    alphabet.step_seconds = 0.002

    def stop(_: RequestTrace) -> None:
        raise RuntimeError("enough")

    async with StreamingClient(alphabet_url, "alphabet") as client:
        with pytest.raises(RuntimeError, match="enough"):
            await run_closed_loop(client, requests(LENGTHS), 2, stop)
    while alphabet.in_flight:
        await asyncio.sleep(0.001)


@pytest.mark.parametrize(("count", "batch_size"), [(3, 4), (3, 0)])
async def test_a_batch_that_cannot_be_kept_is_refused(alphabet_url: str, count: int, batch_size: int):
    with pytest.raises(SpecbenchError):
        await run(alphabet_url, batch_size, [1] * count)
