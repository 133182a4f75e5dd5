"""Families of metrics as Prometheus text, one sample per rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

Labels = Mapping[str, str]


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


def exposition(families: Iterable[Metric]) -> web.Response:
    """The answer of GET /metrics."""
    registry = CollectorRegistry()
    registry.register(_Families(families))
    return web.Response(
        body=generate_latest(registry), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    )


def counter(name: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    """A counter, shown as `name` with the suffix `_total`."""
    family = CounterMetricFamily(name, name, labels=list(samples[0][0]) if samples else [])
    for labels, value in samples:
        family.add_metric(list(labels.values()), value)
    return family


def gauge(name: str, samples: Sequence[tuple[Labels, float]]) -> Metric:
    family = GaugeMetricFamily(name, name, labels=list(samples[0][0]) if samples else [])
    for labels, value in samples:
        family.add_metric(list(labels.values()), value)
    return family


def histogram(name: str, samples: Sequence[tuple[Labels, int, float]]) -> Metric:
    """Count and sum alone, in one bucket. samples: labels, count, sum"""
    family = HistogramMetricFamily(name, name, labels=list(samples[0][0]) if samples else [])
    for labels, count, total in samples:
        family.add_metric(list(labels.values()), buckets=[("+Inf", count)], sum_value=total)
    return family
