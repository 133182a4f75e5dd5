"""The client's own lag: measured, and never in the way."""

from __future__ import annotations

import asyncio
import time

import pytest

from specbench.replay.lag import loop_lag


async def test_a_blocked_loop_shows() -> None:
    async with loop_lag() as delays:
        await asyncio.sleep(0.05)
        time.sleep(0.2)
        await asyncio.sleep(0.05)
    assert max(delays) > 0.1


async def test_a_cancellation_at_the_very_end_is_not_swallowed() -> None:
    async def measure() -> None:
        async with loop_lag():
            task = asyncio.current_task()
            assert task is not None
            task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(measure())
