"""What an attached server counts around a measurement, and whether it worked for others meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from specbench.acceptance import AcceptanceCounts
from specbench.access import Access
from specbench.backends.base import EngineCounters
from specbench.backends.counter_probe import CounterProbe, read_around
from specbench.errors import SpecbenchError
from specbench.telemetry.prometheus import Metrics, counter_delta

if TYPE_CHECKING:
    from specbench.backends.attach.engines import Engine


@asynccontextmanager
async def count(url: str, access: Access, engine: Engine, *, reset: bool) -> AsyncIterator[CounterProbe]:
    """Read the counters before and after, and the cache's use in between; nothing of a server without any.

    reset: empty the prefix cache first, which takes it from everybody. Raises SpecbenchError where that fails.
    """
    if reset and engine.reset is not None:
        await engine.reset(url, access)
    if engine.generated is None:  # nothing to be read that is known here, and TensorRT-LLM's readings are somebody's
        yield CounterProbe()
        return
    async with AsyncExitStack() as stack:
        try:
            probe = await stack.enter_async_context(
                read_around(
                    url,
                    access=access,
                    tokens=engine.generated,
                    kv_usage=engine.kv_usage,
                    between=lambda before, after, peak: between(before, after, engine, peak),
                )
            )
        except SpecbenchError:  # its counters are switched off
            probe = CounterProbe()
        yield probe


def between(before: Metrics, after: Metrics, engine: Engine, kv_usage_peak: float | None) -> EngineCounters | None:
    """What the engine counted, other clients' part included."""
    counted = engine.count(before, after, kv_usage_peak)
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


def nothing(before: Metrics, after: Metrics, kv_usage_peak: float | None) -> EngineCounters | None:
    """Of a server whose counters say nothing that is known here."""
    return None


def tgi(before: Metrics, after: Metrics, kv_usage_peak: float | None) -> EngineCounters | None:
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


def llama_cpp(before: Metrics, after: Metrics, kv_usage_peak: float | None) -> EngineCounters | None:
    """llama.cpp's tokens alone: it counts the steps that had a draft, and each request's own answer tells of all."""
    generated = counter_delta(before, after, "llamacpp:tokens_predicted_total")
    if generated is None:
        return None
    return EngineCounters(generated_tokens=int(generated.total), reset=generated.reset)


def reference(before: Metrics, after: Metrics, kv_usage_peak: float | None) -> EngineCounters | None:
    from specbench.backends.reference import counters_between

    return counters_between(before, after)
