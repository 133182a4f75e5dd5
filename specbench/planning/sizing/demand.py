"""The traffic to be served: how many requests come on average and at the peak, and how long they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from specbench.analysis.cost import SECONDS_PER_MONTH
from specbench.errors import SpecbenchError
from specbench.store.run import RunStore
from specbench.workloads.traffic import Traffic
from specbench.workloads.traffic_spec import TrafficSpec

Lengths = NDArray[np.int32]

WINDOW = 300.0
"""Seconds over which a trace's peak is taken: shorter ones show chance, longer ones hide the peak."""
_LEAST_WINDOWS = 10
_TOKENS = ("prompt_tokens", "output_tokens")
_LENGTHS, _SEED = 20_000, 20_251
"""Requests whose lengths stand for all that a description in words means."""


@dataclass(frozen=True)
class Demand:
    """mean, peak: requests per second, over the month and at its busiest
    prompt, output: tokens of requests as they come, [requests];  source: in words
    cv: standard deviation of the gaps between arrivals over their mean; 1 is Poisson
    """

    mean: float
    peak: float
    prompt: Lengths
    output: Lengths
    source: str
    cv: float = 1.0

    @classmethod
    def of_spec(cls, spec: TrafficSpec, source: str) -> Demand:
        rng = np.random.default_rng(_SEED)
        lengths = [kind.draw(rng, _LENGTHS) for kind in (spec.prompt, spec.output)]
        return cls(spec.rate, spec.rate * spec.peak, lengths[0], lengths[1], source, spec.cv)

    @classmethod
    def of_traffic(cls, traffic: Traffic, source: str) -> Demand:
        """A trace stands for the whole month: its mean rate, its busiest five minutes (a tenth of a short trace)."""
        span = float(traffic.arrival[-1] - traffic.arrival[0]) if len(traffic) > 1 else 0.0
        if span <= 0:
            raise SpecbenchError(f"{source}: a rate needs two requests at different times; give a longer trace.")
        windows = max(_LEAST_WINDOWS, int(span / WINDOW))
        counts, _ = np.histogram(traffic.arrival, bins=windows)
        mean, peak = len(traffic) / span, float(counts.max()) * windows / span
        return cls(mean, peak, traffic.prompt_tokens, traffic.output_tokens, source)

    @classmethod
    def of_run(cls, store: RunStore, workload: str) -> Demand:
        """As long as the run's own requests, one a second."""
        traces = [
            t
            for m in store.measurements()
            if m.cell.workload == workload and m.cell.speculation.is_baseline
            for t in m.traces
            if t.error is None and t.prompt_tokens and t.output_tokens
        ]
        if not traces:
            raise SpecbenchError(f"{store.path} does not tell how long its requests were: say it with --traffic.")
        prompt, output = (np.array([getattr(t, name) for t in traces], np.int32) for name in _TOKENS)
        return cls(1.0, 1.0, prompt, output, f"requests as long as those of {store.path.name}")

    @cached_property
    def prompt_tokens(self) -> float:
        return float(self.prompt.mean())

    @cached_property
    def output_tokens(self) -> float:
        return float(self.output.mean())

    @property
    def output_tokens_per_month(self) -> float:
        return self.mean * self.output_tokens * SECONDS_PER_MONTH

    def of_volume(self, output_tokens_per_month: float) -> Demand:
        """The same requests and the same shape of the day, so many of them."""
        return self.times(output_tokens_per_month / self.output_tokens_per_month)

    def with_peak(self, factor: float) -> Demand:
        """factor: peak over mean"""
        return replace(self, peak=self.mean * factor)

    def times(self, factor: float) -> Demand:
        return replace(self, mean=self.mean * factor, peak=self.peak * factor)

    def longer(self, prompt: float = 1.0, output: float = 1.0) -> Demand:
        """As many requests, with prompts and outputs so many times as long."""
        return replace(self, prompt=_scaled(self.prompt, prompt), output=_scaled(self.output, output))

    def requests(self, rate: float, count: int, seed: int) -> Traffic:
        """Arrivals at a rate. The same seed gives the same requests in the same order at every rate, so that two rates
        differ in the rate alone.
        """
        rng = np.random.default_rng(seed)
        arrival = np.cumsum(rng.gamma(1 / self.cv**2, self.cv**2, size=count)) / rate
        chosen = rng.integers(len(self.prompt), size=count)
        return Traffic(arrival, self.prompt[chosen], self.output[chosen])


def _scaled(lengths: Lengths, factor: float) -> Lengths:
    found: Lengths = np.maximum(1, np.rint(lengths * factor)).astype(np.int32)
    return found
