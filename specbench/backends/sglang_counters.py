"""What an SGLang server counts, around a measurement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from specbench.acceptance import AcceptanceCounts
from specbench.access import DIRECT, Access
from specbench.backends.base import EngineCounters
from specbench.backends.counter_probe import CounterProbe, read_around
from specbench.body import MOST_JSON, read_text
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import CounterDelta, Metrics, counter_delta

FLUSH_SECONDS = 30.0
"""How long a server that is still busy with a cell's last requests is waited for."""

_RETRY_SECONDS = 0.25


@asynccontextmanager
async def count(base_url: str) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after. Begins with an empty cache; raises SpecbenchError where it stays in use."""
    await flush(base_url)
    async with read_around(
        base_url, tokens="sglang:generation_tokens_total", kv_usage="sglang:token_usage", between=counters_between
    ) as probe:
        yield probe


async def flush(base_url: str, access: Access = DIRECT) -> None:
    """Forget earlier cells' prompts and outputs, and the acceptance so far.

    N-gram lookup drafts from what other requests were answered, until the cache is flushed: a cell that began without
    would find its own answers there. So a server that does not flush within FLUSH_SECONDS is a failed measurement.
    """
    deadline = time.monotonic() + FLUSH_SECONDS
    try:
        async with access.session(timeout=aiohttp.ClientTimeout(total=2 * FLUSH_SECONDS)) as session:
            while True:
                async with session.post(f"{base_url}/flush_cache", allow_redirects=False) as response:
                    said = access.redact((await read_text(response, MOST_JSON)).strip())
                    status = response.status
                if status == 200:
                    return
                if status != 400 or time.monotonic() > deadline:  # 400: requests are running
                    raise SpecbenchError(f"the server does not empty its cache: it answers {status}, {said}")
                await asyncio.sleep(_RETRY_SECONDS)
    except (aiohttp.ClientError, asyncio.TimeoutError) as error:
        reason = f"{type(error).__name__}: {access.redact(str(error))}"
        raise SpecbenchError(f"the server does not empty its cache ({reason}).") from error


def counters_between(before: Metrics, after: Metrics, kv_usage_peak: float | None = None) -> EngineCounters | None:
    """What was counted in between, over all ranks; a reset voids it.

    The gauges (`spec_accept_length`, `avg_spec_accept_length`) are no source: each is of one rank's last 40 steps.
    """
    generated = _delta(before, after, "generation_tokens_total")
    if generated is None:
        return None
    if generated.reset:
        return EngineCounters(reset=True)
    prompts = _delta(before, after, "prompt_tokens_total")
    return EngineCounters(
        acceptance=_acceptance(before, after, generated),
        generated_tokens=int(generated.total),
        kv_usage_peak=kv_usage_peak,
        preemptions=_total(_delta(before, after, "num_retracted_requests_total")),
        prefix_cache_queries=_total(prompts),
        # Begins to exist with the first hit.
        prefix_cache_hits=None if prompts is None else _total(_delta(before, after, "cached_tokens_total")) or 0,
        finished_requests=_total(_delta(before, after, "num_requests_total")),
    )


def _acceptance(before: Metrics, after: Metrics, generated: CounterDelta) -> AcceptanceCounts | None:
    """Steps are counted; accepted tokens follow from the others: each request has one from its prefill, each step gives
    one and what it accepted, as far as the output went.

    Too many where the server decoded without speculation, which makes tokens and no such steps: EAGLE's arms refuse
    to draft for a request within gamma + 1 tokens of --max-model-len. What requests tell themselves is free of that.
    """
    steps, requests = (_delta(before, after, f"{name}_total") for name in ("spec_verify_calls", "num_requests"))
    if steps is None or requests is None or steps.reset:
        return None
    accepted = int(generated.total - requests.total - steps.total)
    return AcceptanceCounts(steps=int(steps.total), drafted=None, accepted=max(accepted, 0))


def _total(delta: CounterDelta | None) -> int | None:
    return None if delta is None else int(delta.total)


def _delta(before: Metrics, after: Metrics, name: str) -> CounterDelta | None:
    return counter_delta(before, after, f"sglang:{name}")
