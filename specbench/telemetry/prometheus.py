"""An engine's own counters: the text of its /metrics, and what was counted between two readings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from specbench.access import DIRECT, Access
from specbench.body import MOST_METRICS, read_text
from specbench.errors import SpecbenchError

Labels = frozenset[tuple[str, str]]
Metrics = Mapping[str, Mapping[Labels, float]]
"""Values by sample name (`vllm:generation_tokens_total`) and by labels."""

TIMEOUT = 10.0
"""Seconds for one reading."""


def parse(text: str) -> Metrics:
    """Read Prometheus's text exposition format. Raises SpecbenchError where the text is something else."""
    metrics: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                metrics.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    except ValueError as error:
        raise SpecbenchError(f"/metrics is not in Prometheus's text format: {error}.") from error
    return metrics


async def scrape(base_url: str, access: Access = DIRECT) -> Metrics:
    """Fetch and read /metrics. Raises SpecbenchError where the server does not give it."""
    url = f"{base_url.rstrip('/')}/metrics"
    try:
        async with (
            access.session(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session,
            session.get(url, allow_redirects=False) as response,
        ):
            if response.status != 200:
                raise SpecbenchError(f"{url} answered {response.status}: the server's metrics are switched off.")
            return parse(await read_text(response, MOST_METRICS))
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
        raise SpecbenchError(f"cannot read {url}: {str(error) or type(error).__name__}.") from error


@dataclass(frozen=True, slots=True)
class CounterDelta:
    """What a counter grew by between two readings.

    by_labels: one value per label set (rank, position…)
    reset: the counter went down or vanished, so the server restarted or was flushed: the values are a lower bound
    """

    by_labels: Mapping[Labels, float]
    reset: bool

    @property
    def total(self) -> float:
        """Over all label sets, so over all ranks."""
        return sum(self.by_labels.values())

    def by(self, label: str) -> dict[str, float]:
        """Sums by the values of one label: `by("position")` adds up the ranks."""
        sums: dict[str, float] = {}
        for labels, value in self.by_labels.items():
            if (name := dict(labels).get(label)) is not None:
                sums[name] = sums.get(name, 0.0) + value
        return sums


def counter_delta(before: Metrics, after: Metrics, name: str) -> CounterDelta | None:
    """Growth of the counter `name`; None where the engine does not report it (never zero).

    A label set that is new in `after` started at zero. After a reset the counter's own value is what it has counted
    since, as Prometheus's `increase` takes it.
    """
    if name not in before and name not in after:
        return None
    was, now = before.get(name, {}), after.get(name, {})
    return CounterDelta(
        by_labels={
            labels: value - was.get(labels, 0.0) if value >= was.get(labels, 0.0) else value
            for labels, value in now.items()
        },
        reset=any(now.get(labels, 0.0) < value for labels, value in was.items()),
    )


def any_reset(before: Metrics, after: Metrics, prefix: str) -> bool:
    """Whether any counter (`…_total`) of the engine whose names begin with `prefix` went down or vanished."""
    names = (name for name in before if name.startswith(prefix) and name.endswith("_total"))
    deltas = (counter_delta(before, after, name) for name in names)
    return any(delta is not None and delta.reset for delta in deltas)
