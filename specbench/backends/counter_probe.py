"""An engine's Prometheus counters around a measurement, and the largest share of its KV cache in between."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from specbench.access import DIRECT, Access
from specbench.backends.base import EngineCounters
from specbench.body import MOST_METRICS, read_text
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
async def read_around(
    base_url: str, *, tokens: str, kv_usage: str | None, between: Between, access: Access = DIRECT
) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after. Raises SpecbenchError where the server shows none.

    tokens: the counter of generated tokens, which tells when all is counted;  kv_usage: the gauge to be watched
    between: makes counts of two readings and the gauge's peak
    """
    probe = CounterProbe()
    before = await _settled(base_url, tokens, access)
    watch = asyncio.create_task(_watch(base_url, kv_usage, probe, access)) if kv_usage else None
    try:
        yield probe
    finally:
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
    with suppress(SpecbenchError):  # the server has died: its counters are gone, the traces tell the rest
        probe.counters = between(before, await _settled(base_url, tokens, access), probe.kv_usage_peak)


async def _watch(base_url: str, gauge: str, probe: CounterProbe, access: Access) -> None:
    async with access.session(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            await asyncio.sleep(KV_USAGE_INTERVAL)
            with suppress(aiohttp.ClientError, asyncio.TimeoutError, SpecbenchError):
                async with session.get(f"{base_url}/metrics", allow_redirects=False) as response:
                    seen = largest(gauge, await read_text(response, MOST_METRICS))
                probe.kv_usage_peak = max((v for v in (seen, probe.kv_usage_peak) if v is not None), default=None)


def largest(gauge: str, metrics: str) -> float | None:
    """The gauge's largest value over its label sets. Reads these lines alone: parsing all stalls the client's loop."""
    lines = re.findall(rf"^{re.escape(gauge)}(?:\{{.*\}})? ([\d.eE+-]+)", metrics, re.MULTILINE)
    return max(map(float, lines), default=None)


async def _settled(base_url: str, tokens: str, access: Access) -> Metrics:
    """The metrics once they stand still: engines count a step a moment after its tokens have left.

    A server that works for others too never stands still; then as they are.
    """
    metrics = await scrape(base_url, access)
    for _ in range(_SETTLE_READINGS):
        await asyncio.sleep(_SETTLE_SECONDS)
        last, metrics = metrics, await scrape(base_url, access)
        if last.get(tokens) == metrics.get(tokens):
            break
    return metrics
