"""What a vLLM server counts, around a measurement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.access import DIRECT, Access
from specbench.backends.base import EngineCounters
from specbench.backends.counter_probe import CounterProbe, read_around
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import CounterDelta, Metrics, any_reset, counter_delta


@asynccontextmanager
async def count(base_url: str) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after, and the KV cache's use in between. Begins with an empty prefix cache."""
    with suppress(SpecbenchError):  # a server without development mode does not have the endpoint; hits are counted
        await reset_prefix_cache(base_url)
    async with read_around(
        base_url, tokens="vllm:generation_tokens_total", kv_usage="vllm:kv_cache_usage_perc", between=counters_between
    ) as probe:
        yield probe


async def reset_prefix_cache(base_url: str, access: Access = DIRECT) -> None:
    """Forget earlier cells' prompts. Raises SpecbenchError where the server does not."""
    url = f"{base_url}/reset_prefix_cache"
    try:
        async with access.session() as session, session.post(url, allow_redirects=False) as response:
            if response.status != 200:
                raise SpecbenchError(
                    f"{url} answers {response.status}: the server does not empty its prefix cache. vLLM does in "
                    "development mode alone (VLLM_SERVER_DEV_MODE=1): start it so, or leave --allow-reset out."
                )
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        reason = access.redact(str(error)) or type(error).__name__
        raise SpecbenchError(f"the server does not empty its prefix cache ({reason}).") from error


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
