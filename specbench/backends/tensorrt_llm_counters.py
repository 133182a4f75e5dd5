"""What a TensorRT-LLM server tells of its iterations, around a measurement.

/metrics gives each iteration once and keeps a thousand: it is read all the time, and what was lost shows by its number.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import EngineCounters

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""A thousand iterations of a millisecond each last twice as long."""


@dataclass
class IterationProbe:
    """See `Probe`. iterations: by number, which also drops what was read twice"""

    counters: EngineCounters | None = None
    iterations: dict[int, Mapping[str, Any]] = field(default_factory=dict)


@asynccontextmanager
async def count(base_url: str) -> AsyncIterator[IterationProbe]:
    """Drop what happened before, gather everything in between, the last moments included."""
    probe = IterationProbe()
    timeout = aiohttp.ClientTimeout(total=10)
    async with aiohttp.ClientSession(base_url, timeout=timeout) as session:
        await _read(session)
        watch = asyncio.create_task(_watch(session, probe))
        try:
            yield probe
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        _add(probe, await _read(session))
    probe.counters = counters_of(probe.iterations)


def counters_of(iterations: Mapping[int, Mapping[str, Any]]) -> EngineCounters | None:
    """Sums over iterations; None without any, and where some between the first and the last were lost."""
    if not iterations:
        return None
    if len(iterations) != max(iterations) - min(iterations) + 1:
        logger.warning("some of TensorRT-LLM's iterations were lost before they were read: no counters")
        return None
    stats = [s for entry in iterations.values() if (s := entry.get("specDecodingStats")) and s["numDraftTokens"] > 0]
    if not stats:
        return EngineCounters()
    drafts, drafted, accepted = (
        sum(s[name] for s in stats) for name in ("numRequestsWithDraftTokens", "numDraftTokens", "numAcceptedTokens")
    )
    batches = (entry.get("inflightBatchingStats") or {} for entry in iterations.values())
    # Each sequence that decodes in an iteration takes a step, with a draft or without.
    steps = max(drafts, sum(batch.get("numGenRequests", 0) for batch in batches))
    return EngineCounters(acceptance=AcceptanceCounts(steps=steps, drafted=drafted, accepted=accepted, drafts=drafts))


async def _watch(session: aiohttp.ClientSession, probe: IterationProbe) -> None:
    while True:
        await asyncio.sleep(POLL_SECONDS)
        _add(probe, await _read(session))


def _add(probe: IterationProbe, iterations: Iterable[Mapping[str, Any]]) -> None:
    probe.iterations.update((entry["iter"], entry) for entry in iterations)


async def _read(session: aiohttp.ClientSession) -> list[Mapping[str, Any]]:
    """The iterations since the last reading; none where the server does not tell, or has died."""
    with suppress(aiohttp.ClientError, asyncio.TimeoutError, ValueError):
        async with session.get("/metrics") as response:
            iterations: list[Mapping[str, Any]] = await response.json(content_type=None) or []
            return iterations
    return []
