"""What a TensorRT-LLM server tells of its iterations, around a measurement.

/metrics gives each iteration once and keeps a thousand: it is read all the time, and what was lost shows by its number.
An idle server answers after two seconds; some versions go on answering until they were idle for so long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import EngineCounters

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""A thousand iterations of a millisecond each last twice as long."""

SETTLE_SECONDS = 20.0
"""For the last answer, once the measurement is over."""


@dataclass
class IterationProbe:
    """See `Probe`.

    iterations: by number, which also drops what was read twice
    before: number of the last iteration before the measurement; None where it is not known
    """

    counters: EngineCounters | None = None
    iterations: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    before: int | None = None


@asynccontextmanager
async def count(base_url: str) -> AsyncIterator[IterationProbe]:
    """Drop what happened before, gather everything in between, the last moments included."""
    probe, over = IterationProbe(), asyncio.Event()
    # No timeout: an answer that is given up takes its iterations with it.
    async with aiohttp.ClientSession(base_url, timeout=aiohttp.ClientTimeout(total=None)) as session:
        with suppress(asyncio.TimeoutError):
            earlier = await asyncio.wait_for(read_iterations(session), SETTLE_SECONDS)
            probe.before = max((entry["iter"] for entry in earlier), default=None)
        watch = asyncio.create_task(_watch(session, probe, over))
        try:
            yield probe
            over.set()
            await asyncio.wait({watch}, timeout=SETTLE_SECONDS)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
    probe.counters = counters_of(probe.iterations, probe.before)


def counters_of(iterations: Mapping[int, Mapping[str, Any]], before: int | None = None) -> EngineCounters | None:
    """Sums over iterations; None without any, and where some were lost between the last one before and the last."""
    if not iterations:
        return None
    numbers = [*([] if before is None else [before]), *sorted(iterations)]
    if not all(_follows(a, b, iterations[b]) for a, b in pairwise(numbers)):
        logger.warning("some of TensorRT-LLM's iterations were lost before they were read: no counters")
        return None
    blocks = [stats for entry in iterations.values() if (stats := entry.get("kvCacheStats"))]
    used = [b["usedNumBlocks"] / b["maxNumBlocks"] for b in blocks if b.get("maxNumBlocks")]
    return EngineCounters(acceptance=_acceptance(iterations), kv_usage_peak=max(used, default=None))


def _follows(before: int, number: int, entry: Mapping[str, Any]) -> bool:
    """Whether nothing is lost between two numbers.

    An engine with the overlap scheduler that runs out of work takes one more pass, of which it does not tell: a number
    is skipped, and the next iteration has nothing but prompts.
    """
    idle = not (entry.get("inflightBatchingStats") or {}).get("numGenRequests")
    return number == before + 1 or (number == before + 2 and idle)


def _acceptance(iterations: Mapping[int, Mapping[str, Any]]) -> AcceptanceCounts | None:
    """None where no iteration tells of drafts: a baseline, or an engine that does not say."""
    stats = [s for entry in iterations.values() if (s := entry.get("specDecodingStats")) and s["numDraftTokens"] > 0]
    if not stats:
        return None
    drafts, drafted, accepted = (
        sum(s[name] for s in stats) for name in ("numRequestsWithDraftTokens", "numDraftTokens", "numAcceptedTokens")
    )
    batches = (entry.get("inflightBatchingStats") or {} for entry in iterations.values())
    # Each sequence that decodes in an iteration takes a step, with a draft or without.
    steps = max(drafts, sum(batch.get("numGenRequests", 0) for batch in batches))
    return AcceptanceCounts(steps=steps, drafted=drafted, accepted=accepted, drafts=drafts)


async def read_iterations(session: aiohttp.ClientSession) -> list[Mapping[str, Any]]:
    """The iterations since the last reading; none where the server does not tell, or has died."""
    with suppress(aiohttp.ClientError, asyncio.TimeoutError, ValueError):
        async with session.get("/metrics") as response:
            iterations: list[Mapping[str, Any]] = await response.json(content_type=None) or []
            return iterations
    return []


async def _watch(session: aiohttp.ClientSession, probe: IterationProbe, over: asyncio.Event) -> None:
    """Read until it is over, and once more then."""
    last = False
    while not last:
        last = over.is_set()
        _add(probe, await read_iterations(session))
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(over.wait(), POLL_SECONDS)


def _add(probe: IterationProbe, iterations: Iterable[Mapping[str, Any]]) -> None:
    probe.iterations.update((entry["iter"], entry) for entry in iterations)
