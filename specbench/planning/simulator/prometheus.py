"""A simulation's figures as Prometheus reads them, under names of their own: nobody is to take them for an engine's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from specbench.planning.simulator import tally
from specbench.planning.simulator.outcome import EDGES, Outcome

_PREFIX = "specbench_simulated_"
_LATENCIES = {
    "ttft": ("time_to_first_token_seconds", "From arrival to the first token"),
    "tpot": ("time_per_output_token_seconds", "Per token after the first, by request"),
    "e2e": ("request_latency_seconds", "From arrival to the last token"),
    "wait": ("queue_time_seconds", "From arrival to the first step that a request is in"),
}
_GAUGES = {
    "utilisation": "Share of the time in which a replica has a step under way",
    "mean_batch": "Sequences in a step, weighted with its time",
    "cache_use": "Share of the KV cache's blocks that are taken",
    "mean_acceptance_length": "Tokens per step and sequence, bonus token included",
    "suspended_share": "Share of the steps of sequences in which the policy let nothing be drafted",
    "availability": "Share of the time that replicas are up",
}
_COUNTERS = {
    "requests": (tally.FINISHED, "Requests that ended"),
    "good_requests": (tally.GOOD, "Requests that ended within the objective"),
    "output_tokens": (tally.EMITTED, "Tokens put out"),
    "prompt_tokens": (tally.PREFILLED, "Tokens of prompts computed"),
    "draft_tokens": (tally.DRAFTED, "Tokens drafted"),
    "accepted_tokens": (tally.ACCEPTED, "Drafted tokens that were kept"),
    "steps": (tally.STEPS, "Steps of replicas"),
    "preemptions": (tally.PREEMPTED, "Requests that lost their place in the cache"),
    "replica_failures": (tally.FAILED, "Failures of replicas"),
}
_EVERY = 35
"""Bins to a bucket: seven buckets for a factor of ten."""


def prometheus_text(outcome: Outcome) -> str:
    """The text exposition format; labels `policy` and `router`. Of the time after the warm-up."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(outcome))
    return generate_latest(registry).decode()


class _Collected:
    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def collect(self) -> Iterator[Metric]:
        outcome = self._outcome
        labels = ("policy", "router")
        values = (outcome.fleet.replica.policy, outcome.fleet.router)
        for name, (title, said) in _LATENCIES.items():
            latency = getattr(outcome, name)
            counts = np.cumsum(latency.histograms.sum(axis=0))
            places = [k for k in range(_EVERY - 1, tally.BINS - 1, _EVERY) if counts[k]]
            buckets = [(f"{EDGES[k + 1]:.4g}", float(counts[k])) for k in places]
            histogram = HistogramMetricFamily(_PREFIX + title, f"{said}.", labels=labels)
            histogram.add_metric(values, [*buckets, ("+Inf", float(counts[-1]))], float(latency.sums.sum()))
            yield histogram
        for name, said in _GAUGES.items():
            gauge = GaugeMetricFamily(_PREFIX + name, f"{said}.", labels=labels)
            gauge.add_metric(values, getattr(outcome, name))
            yield gauge
        for name, (column, said) in _COUNTERS.items():
            counter = CounterMetricFamily(_PREFIX + name, f"{said}.", labels=labels)
            counter.add_metric(values, float(outcome.counted.totals[column]))
            yield counter
