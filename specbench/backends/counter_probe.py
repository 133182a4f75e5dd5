"""An engine's Prometheus counters around a measurement, and the largest share of its KV cache in between."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from specbench.backends.base import EngineCounters
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import Metrics, scrape

KV_USAGE_INTERVAL = 2.0
"""Seconds between readings of the KV cache's use: rendering /metrics takes the server some milliseconds."""

_SETTLE_SECONDS = 0.25
_SETTLE_READINGS = 8

Between = Callable[[Metrics, Metrics, float | None], EngineCounters | None]


@dataclass
class CounterProbe:
    """See `Probe`. kv_usage_peak: the largest reading so far, 0..1"""

    counters: EngineCounters | None = None
    kv_usage_peak: float | None = None


@asynccontextmanager
async def read_around(base_url: str, *, tokens: str, kv_usage: str, between: Between) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after.

    tokens: the counter of generated tokens, which tells when all is counted;  kv_usage: the gauge to be watched
    between: makes counts of two readings and the gauge's peak
    """
    probe = CounterProbe()
    before = await _settled(base_url, tokens)
    watch = asyncio.create_task(_watch_kv_usage(base_url, kv_usage, probe))
    try:
        yield probe
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    with suppress(SpecbenchError):  # the server has died: its counters are gone, the traces tell the rest
        probe.counters = between(before, await _settled(base_url, tokens), probe.kv_usage_peak)


async def _watch_kv_usage(base_url: str, gauge: str, probe: CounterProbe) -> None:
    """Note the largest share of the KV cache in use. Reads the one line: parsing all would stall the client's loop."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            await asyncio.sleep(KV_USAGE_INTERVAL)
            with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async with session.get(f"{base_url}/metrics") as response:
                    text = await response.text()
                usage = [float(u) for u in re.findall(rf"^{gauge}(?:\{{\S*)? (\S+)", text, re.MULTILINE)]
                known = [*usage, *([] if probe.kv_usage_peak is None else [probe.kv_usage_peak])]
                probe.kv_usage_peak = max(known, default=None)


async def _settled(base_url: str, tokens: str) -> Metrics:
    """The metrics once they stand still: engines count a moment after the tokens have left."""
    metrics = await scrape(base_url)
    for _ in range(_SETTLE_READINGS):
        await asyncio.sleep(_SETTLE_SECONDS)
        last, metrics = metrics, await scrape(base_url)
        if last.get(tokens) == metrics.get(tokens):
            break
    return metrics
