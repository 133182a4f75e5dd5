"""How late the client's own event loop runs: a client at its limit measures itself, not the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

INTERVAL = 0.01
"""Seconds between probes. Timers are coarse, so an idle loop shows up to about a millisecond."""


@asynccontextmanager
async def loop_lag() -> AsyncIterator[list[float]]:
    """While the context is open, the list grows by one delay (seconds) per probe."""
    delays: list[float] = []
    probe = asyncio.create_task(_probe(delays))
    try:
        yield delays
    finally:
        probe.cancel()
        # Not `await probe` with its CancelledError suppressed: that would swallow a Ctrl-C that comes just now, too.
        await asyncio.wait([probe])


async def _probe(delays: list[float]) -> None:
    while True:
        due = time.perf_counter() + INTERVAL
        await asyncio.sleep(INTERVAL)
        delays.append(max(0.0, time.perf_counter() - due))
