"""Waiting for all requests of a loop, open or closed, and what then came home."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import numpy as np

from specbench.replay.lag import loop_lag
from specbench.replay.records import ReplayRun, RequestTrace


async def gather(
    senders: Sequence[Coroutine[Any, Any, None]], traces: Mapping[int, RequestTrace], started: float
) -> ReplayRun:
    """Run the senders until all have ended, and note how late the event loop was meanwhile.

    traces: filled by the senders, by place in the order of requests. Cancelling the call cancels what is in flight.
    """
    async with loop_lag() as delays:
        tasks = [asyncio.create_task(sender) for sender in senders]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return ReplayRun(
        traces=tuple(traces[place] for place in range(len(traces))),
        started=started,
        finished=time.perf_counter(),
        client_lag_p99=float(np.percentile(delays, 99)) if delays else None,
    )
