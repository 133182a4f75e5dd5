"""What an attached server counts around a measurement, and whether it worked for others meanwhile."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.access import Access
from specbench.backends.base import EngineCounters
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import Metrics, counter_delta, scrape

if TYPE_CHECKING:
    from specbench.backends.attach.engines import Engine

WATCH_SECONDS = 2.0
"""Between readings of the cache's use: rendering its metrics takes a server some milliseconds."""

_SETTLE_SECONDS = 0.25
_SETTLE_READINGS = 8


@dataclass
class AttachedProbe:
    """See `Probe`. cache_use: the largest share of the KV cache in use that was seen, 0..1"""

    counters: EngineCounters | None = None
    cache_use: float | None = None


@asynccontextmanager
async def count(url: str, access: Access, engine: Engine, *, reset: bool) -> AsyncIterator[AttachedProbe]:
    """Read the counters before and after, and the cache's use in between; nothing of a server without any.

    reset: empty the prefix cache first, which takes it from everybody
    """
    probe = AttachedProbe()
    if reset and engine.reset_path is not None:
        await _reset(url + engine.reset_path, access)
    try:
        before = await _settled(url, access, engine)
    except SpecbenchError:
        yield probe
        return
    watch = asyncio.create_task(_watch(url, access, engine, probe))
    try:
        yield probe
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    with suppress(SpecbenchError):  # the server has died: its counters are gone, the traces tell the rest
        probe.counters = between(before, await _settled(url, access, engine), engine, probe.cache_use)


def between(before: Metrics, after: Metrics, engine: Engine, cache_use: float | None) -> EngineCounters | None:
    """What the engine counted, other clients' part included."""
    counted = engine.count(before, after, cache_use)
    if counted is None:
        return None
    finished = counter_delta(before, after, engine.finished) if engine.finished else None
    return replace(
        counted,
        finished_requests=None if finished is None or finished.reset else int(finished.total),
        others_before=under_way(before, engine),
    )


def under_way(metrics: Metrics, engine: Engine) -> int | None:
    """Requests that the server is working on; None where it does not tell."""
    if engine.running is None or engine.running not in metrics:
        return None
    return int(sum(metrics[engine.running].values()))


def nothing(before: Metrics, after: Metrics, cache_use: float | None) -> EngineCounters | None:
    """Of a server whose counters say nothing that is known here."""
    return None


def tgi(before: Metrics, after: Metrics, cache_use: float | None) -> EngineCounters | None:
    """Text Generation Inference notes for each step, the prefill's too, how many tokens it gave beyond the first."""
    generated, requests, skipped, steps = (
        counter_delta(before, after, name)
        for name in (
            "tgi_request_generated_tokens_sum",
            "tgi_request_generated_tokens_count",
            "tgi_request_skipped_tokens_sum",
            "tgi_request_skipped_tokens_count",
        )
    )
    if generated is None:
        return None
    if generated.reset:
        return EngineCounters(reset=True)
    if skipped is None or steps is None or requests is None:
        return EngineCounters(generated_tokens=int(generated.total))
    counts = AcceptanceCounts(max(int(steps.total - requests.total), 0), None, int(skipped.total))
    return EngineCounters(acceptance=counts, generated_tokens=int(generated.total))


def llama_cpp(before: Metrics, after: Metrics, cache_use: float | None) -> EngineCounters | None:
    """llama.cpp's tokens alone: it counts the steps that had a draft, and each request's own answer tells of all."""
    generated = counter_delta(before, after, "llamacpp:tokens_predicted_total")
    if generated is None:
        return None
    return EngineCounters(generated_tokens=int(generated.total), reset=generated.reset)


def reference(before: Metrics, after: Metrics, cache_use: float | None) -> EngineCounters | None:
    from specbench.backends.reference import counters_between

    return counters_between(before, after)


async def _settled(url: str, access: Access, engine: Engine) -> Metrics:
    """The metrics once they stand still: engines count a step a moment after its tokens have left.

    A server that works for others never stands still; then as they are.
    """
    metrics = await scrape(url, access)
    for _ in range(_SETTLE_READINGS):
        await asyncio.sleep(_SETTLE_SECONDS)
        last, metrics = metrics, await scrape(url, access)
        if engine.generated is None or last.get(engine.generated) == metrics.get(engine.generated):
            break
    return metrics


async def _watch(url: str, access: Access, engine: Engine, probe: AttachedProbe) -> None:
    """Note the largest share of the cache in use. Reads the one line: parsing all would stall the client's loop."""
    if engine.cache_use is None:
        return
    line = re.compile(rf"^{re.escape(engine.cache_use)}\S* (\S+)", re.MULTILINE)
    async with access.session(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            with suppress(aiohttp.ClientError, asyncio.TimeoutError, ValueError):
                async with session.get(f"{url}/metrics", allow_redirects=False) as response:
                    text = await response.text()
                seen = [float(value) for value in line.findall(text)]
                known = [*seen, *([] if probe.cache_use is None else [probe.cache_use])]
                probe.cache_use = max(known, default=None)


async def _reset(url: str, access: Access) -> None:
    """Servers without the endpoint keep their cache; hits are counted."""
    with suppress(aiohttp.ClientError, asyncio.TimeoutError):
        async with access.session() as session, session.post(url, allow_redirects=False):
            pass
