"""The engine's counters and gauges as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from specbench.decoder.engine import Engine

PREFIX = "specbench:"


def exposition(engine: Engine) -> str:
    """The body of GET /metrics. Counters carry the suffix `_total`."""
    registry = CollectorRegistry()
    registry.register(_EngineCollector(engine))
    return generate_latest(registry).decode()


class _EngineCollector(Collector):
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        engine, counters = self._engine, self._engine.counters
        counts = {
            "num_steps": ("Verification passes, one per sequence and step", counters.steps),
            "spec_decode_num_drafts": ("Steps that had a draft", counters.drafts),
            "spec_decode_num_draft_tokens": ("Tokens proposed", counters.drafted),
            "spec_decode_num_accepted_tokens": ("Proposed tokens that were emitted", counters.accepted),
            "generation_tokens": ("Tokens emitted", counters.generated),
            "num_passes": ("Verification passes, one for all sequences in it", counters.passes),
            "verify_bytes": ("Bytes read by them: weights and cache", counters.verify_bytes),
            "prepared_drafts": ("Drafts that could have been prepared during verification", counters.prepared),
            "ready_drafts": ("Drafts that were, for the outcome that came", counters.ready),
            "drafting_passes": ("Verification passes of these drafts", counters.drafting),
            "late_passes": ("Verification passes that waited for a draft that was not", counters.late),
            **{f"{phase}_seconds": (f"Time spent in {phase}", value) for phase, value in counters.seconds.items()},
        }
        for name, (text, value) in counts.items():
            yield CounterMetricFamily(PREFIX + name, text, value=value)
        by_position = CounterMetricFamily(
            PREFIX + "spec_decode_num_accepted_tokens_per_pos",
            "Tokens accepted at a draft position",
            labels=["position"],
        )
        for position, count in enumerate(counters.accepted_at):
            by_position.add_metric([str(position)], count)
        yield by_position
        gauges = {
            "kv_cache_usage_perc": (
                "Share of the cache's tokens in use, 0 to 1",
                engine.kv_tokens / engine.kv_capacity,
            ),
            "kv_cache_tokens_total_capacity": ("Tokens that the cache has place for", engine.kv_capacity),
            "num_requests_running": ("Requests that occupy a row", engine.running),
            "num_requests_waiting": ("Requests in the queue", engine.waiting),
        }
        if counters.read_bytes_per_s is not None:
            gauges["read_bytes_per_s"] = ("How fast the device's memory is read", counters.read_bytes_per_s)
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(PREFIX + name, text, value=value)
