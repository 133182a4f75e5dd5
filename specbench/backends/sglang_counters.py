"""What an SGLang server counts, around a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import EngineCounters
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import CounterDelta, Metrics, counter_delta, scrape


@dataclass
class CounterProbe:
    """See `Probe`."""

    counters: EngineCounters | None = None


@asynccontextmanager
async def count(base_url: str) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after. Begins with an empty cache, which also sets acceptance back to zero."""
    probe = CounterProbe()
    with suppress(aiohttp.ClientError, asyncio.TimeoutError):
        async with aiohttp.ClientSession() as session, session.post(f"{base_url}/flush_cache"):
            pass
    before = await scrape(base_url)
    yield probe
    with suppress(SpecbenchError):  # the server has died: its counters are gone, the traces tell the rest
        probe.counters = counters_between(before, await scrape(base_url))


def counters_between(before: Metrics, after: Metrics) -> EngineCounters | None:
    """What was counted in between, over all ranks; a reset voids it.

    The gauges (`spec_accept_length`, `avg_spec_accept_length`) are no source: each is of one rank's last 40 steps.
    """
    generated = _delta(before, after, "generation_tokens_total")
    if generated is None:
        return None
    return EngineCounters(
        acceptance=_acceptance(before, after, generated),
        generated_tokens=int(generated.total),
        reset=generated.reset,
    )


def _acceptance(before: Metrics, after: Metrics, generated: CounterDelta) -> AcceptanceCounts | None:
    """Steps are counted; accepted tokens follow from the others: each request has one from its prefill, each step gives
    one and what it accepted, as far as the output went.
    """
    steps, requests = (_delta(before, after, f"{name}_total") for name in ("spec_verify_calls", "num_requests"))
    if steps is None or requests is None or steps.reset or generated.reset:
        return None
    accepted = int(generated.total - requests.total - steps.total)
    return AcceptanceCounts(steps=int(steps.total), drafted=None, accepted=max(accepted, 0))


def _delta(before: Metrics, after: Metrics, name: str) -> CounterDelta | None:
    return counter_delta(before, after, f"sglang:{name}")
