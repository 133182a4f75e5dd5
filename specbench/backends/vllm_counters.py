"""What a vLLM server counts, around a measurement."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.backends.base import EngineCounters
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import CounterDelta, Metrics, any_reset, counter_delta, scrape

KV_USAGE_INTERVAL = 2.0
"""Seconds between readings of the KV cache's use: rendering /metrics takes the server some milliseconds."""

_SETTLE_SECONDS = 0.25
_SETTLE_READINGS = 8


@dataclass
class CounterProbe:
    """See `Probe`. kv_usage_peak: the largest reading so far, 0..1"""

    counters: EngineCounters | None = None
    kv_usage_peak: float | None = None


@asynccontextmanager
async def count(base_url: str) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after, and the KV cache's use in between. Begins with an empty prefix cache."""
    probe = CounterProbe()
    await _reset_prefix_cache(base_url)
    before = await _settled(base_url)
    watch = asyncio.create_task(_watch_kv_usage(base_url, probe))
    try:
        yield probe
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
    with suppress(SpecbenchError):  # the server has died: its counters are gone, the traces tell the rest
        probe.counters = counters_between(before, await _settled(base_url), probe.kv_usage_peak)


async def _reset_prefix_cache(base_url: str) -> None:
    """Forget earlier cells' prompts. Servers without development mode do not have the endpoint; hits are counted."""
    with suppress(aiohttp.ClientError, asyncio.TimeoutError):
        async with aiohttp.ClientSession() as session, session.post(f"{base_url}/reset_prefix_cache"):
            pass


async def _watch_kv_usage(base_url: str, probe: CounterProbe) -> None:
    """Note the largest share of the KV cache in use. Reads the one line: parsing all would stall the client's loop."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=10)) as session:
        while True:
            await asyncio.sleep(KV_USAGE_INTERVAL)
            with suppress(aiohttp.ClientError, asyncio.TimeoutError):
                async with session.get(f"{base_url}/metrics") as response:
                    text = await response.text()
                usage = [float(u) for u in re.findall(r"^vllm:kv_cache_usage_perc\S* (\S+)", text, re.MULTILINE)]
                known = [*usage, *([] if probe.kv_usage_peak is None else [probe.kv_usage_peak])]
                probe.kv_usage_peak = max(known, default=None)


async def _settled(base_url: str) -> Metrics:
    """The metrics once they stand still: vLLM counts a step a moment after its tokens have left."""
    metrics = await scrape(base_url)
    for _ in range(_SETTLE_READINGS):
        await asyncio.sleep(_SETTLE_SECONDS)
        last, metrics = metrics, await scrape(base_url)
        if last.get("vllm:generation_tokens_total") == metrics.get("vllm:generation_tokens_total"):
            break
    return metrics


def counters_between(before: Metrics, after: Metrics, kv_usage_peak: float | None) -> EngineCounters | None:
    """What the server counted in between, over all engines; nothing but that where it restarted, None without any."""
    generated = _delta(before, after, "generation_tokens_total")
    if generated is None:
        return None
    if any_reset(before, after, "vllm:"):
        return EngineCounters(reset=True)
    return EngineCounters(
        acceptance=_acceptance(before, after, generated),
        generated_tokens=int(generated.total),
        kv_usage_peak=kv_usage_peak,
        preemptions=_total(_delta(before, after, "num_preemptions_total")),
        prefix_cache_queries=_total(_delta(before, after, "prefix_cache_queries_total")),
        prefix_cache_hits=_total(_delta(before, after, "prefix_cache_hits_total")),
    )


def _acceptance(before: Metrics, after: Metrics, generated: CounterDelta) -> AcceptanceCounts | None:
    """Counts of speculation; None without it.

    vLLM counts the steps that had a draft. All steps follow from the tokens: each request has one from its prefill,
    each step gives one and what it accepted (at most a last draft's rest per request was cut off, which is not known).
    """
    drafts = _total(_delta(before, after, "spec_decode_num_drafts_total"))
    drafted = _total(_delta(before, after, "spec_decode_num_draft_tokens_total"))
    accepted = _total(_delta(before, after, "spec_decode_num_accepted_tokens_total"))
    if drafts is None or drafted is None or accepted is None:
        return None
    positions = _delta(before, after, "spec_decode_num_accepted_tokens_per_pos_total")
    by_position = positions.by("position") if positions else {}
    first_tokens = _total(_delta(before, after, "time_to_first_token_seconds_count")) or 0
    return AcceptanceCounts(
        steps=max(drafts, int(generated.total) - first_tokens - accepted),
        drafted=drafted,
        accepted=accepted,
        drafts=drafts,
        by_position=tuple(int(by_position[k]) for k in sorted(by_position, key=int)) or None,
    )


def _delta(before: Metrics, after: Metrics, name: str) -> CounterDelta | None:
    return counter_delta(before, after, f"vllm:{name}")


def _total(delta: CounterDelta | None) -> int | None:
    return None if delta is None else int(delta.total)
