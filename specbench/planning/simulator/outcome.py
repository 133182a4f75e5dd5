"""What a simulation showed: latencies with intervals, throughput, how busy the fleet was, its course over time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from specbench.planning.simulator import tally
from specbench.planning.simulator.fleet import Fleet
from specbench.planning.simulator.tally import BINS, METRICS, SHORTEST, WIDTH, Tally

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

LEVEL = 0.95
PERCENTILES = (50, 90, 95, 99)

_BUSY = 0.98
"""Utilisation of a fleet that has no time left, but for the beginning."""

EDGES = SHORTEST * (1 + WIDTH) ** np.arange(BINS + 1)
"""Seconds, of the bins of latency."""


class Range(NamedTuple):
    """A figure and its interval of LEVEL by batch means; NaN where there is no request, or too few for an interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Requests by latency, in stretches of time [batches, bins], and the sums of their seconds [batches].

    A quantile is exact to the width of a bin, 1 %; a mean is exact. Intervals take stretches for independent: where
    traffic follows the time of day they hold its course too, and are wide.
    """

    histograms: Counts
    sums: Floats

    @property
    def count(self) -> int:
        return int(self.histograms.sum())

    def mean(self) -> Range:
        counts = self.histograms.sum(axis=1)
        seen = counts > 0
        if not seen.any():
            return Range(math.nan, math.nan, math.nan)
        return _around(float(self.sums.sum() / counts.sum()), self.sums[seen] / counts[seen])

    def quantile(self, q: float) -> Range:
        """q from 0 to 1."""
        seen = self.histograms[self.histograms.sum(axis=1) > 0]
        if not len(seen):
            return Range(math.nan, math.nan, math.nan)
        return _around(quantile(seen.sum(axis=0), q), np.array([quantile(row, q) for row in seen]))


def quantile(histogram: NDArray[np.integer[Any]], q: float) -> float:
    """Seconds below which a share q lies; within a bin evenly."""
    below = np.cumsum(histogram)
    wanted = q * below[-1]
    at = min(int(np.searchsorted(below, wanted)), BINS - 1)
    within = (wanted - (below[at] - histogram[at])) / histogram[at] if histogram[at] else 0.0
    return float(EDGES[at] + within * (EDGES[at + 1] - EDGES[at]))


def _around(value: float, batches: Floats) -> Range:
    """The mean of n alike stretches: Student's t over them."""
    n = len(batches)
    if n < 2:
        return Range(value, math.nan, math.nan)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * batches.std(ddof=1) / math.sqrt(n))
    return Range(value, max(0.0, value - half), value + half)


@dataclass(frozen=True)
class Outcome:
    """Figures of the time after the warm-up; latencies of the requests that arrived in it.

    refused: requests longer than the cache of a replica;  requests: all that came, warm-up included
    sampled: replicas that stood for all of the fleet's, where a random split allows that; None where all were simulated
    """

    fleet: Fleet
    counted: Tally
    requests: int
    refused: int
    sampled: int | None = None

    @property
    def ttft(self) -> Latency:
        return self._latency(tally.TTFT)

    @property
    def tpot(self) -> Latency:
        """Of requests of two tokens or more: (last − first) / (tokens − 1)."""
        return self._latency(tally.TPOT)

    @property
    def e2e(self) -> Latency:
        return self._latency(tally.E2E)

    @property
    def wait(self) -> Latency:
        """From arrival to the first step that a request is in."""
        return self._latency(tally.WAIT)

    @property
    def seconds(self) -> float:
        """That figures are of."""
        return self.counted.end - self.counted.start

    @property
    def scale(self) -> float:
        """Replicas of the fleet per simulated one."""
        return 1.0 if self.sampled is None else self.fleet.replicas / self.sampled

    @property
    def output_tokens_per_s(self) -> float:
        return self._per_second(tally.EMITTED)

    @property
    def arrivals_per_s(self) -> float:
        return self._per_second(tally.ARRIVED)

    @property
    def requests_per_s(self) -> float:
        """That end; below what arrives where a queue grows."""
        return self._per_second(tally.FINISHED)

    @property
    def falls_behind(self) -> bool:
        """Whether busy replicas end fewer requests than come, by more than chance: a queue that grows."""
        came, ended = self._total(tally.ARRIVED), self._total(tally.FINISHED)
        return self.utilisation > _BUSY and came - ended > 4 * math.sqrt(came)

    @property
    def goodput_requests_per_s(self) -> float:
        """Requests that end and kept the objective: all of them without one."""
        return self._per_second(tally.GOOD)

    @property
    def utilisation(self) -> float:
        """Share of the time of replicas that are up in which they have a step under way."""
        up = self.simulated_replicas * self.seconds - self._total(tally.AWAY)
        return self._total(tally.BUSY) / up if up > 0 else math.nan

    @property
    def mean_batch(self) -> float:
        """Sequences in a step, weighted with its time."""
        return self._total(tally.SEQUENCES) / self._total(tally.BUSY) if self._total(tally.BUSY) else 0.0

    @property
    def cache_use(self) -> float:
        """Share of the blocks of the cache that are taken, over all time."""
        return self._total(tally.CACHE) / (self.fleet.replica.blocks * self.simulated_replicas * self.seconds)

    @property
    def preemptions(self) -> float:
        """Per finished request."""
        finished = self._total(tally.FINISHED)
        return self._total(tally.PREEMPTED) / finished if finished else 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """1 + accepted / steps of sequences; a last step that the output's end cut counts whole."""
        steps = self._total(tally.DECODED)
        return 1 + self._total(tally.ACCEPTED) / steps if steps else math.nan

    @property
    def suspended_share(self) -> float:
        """Of the steps of sequences, those in which the policy let nothing be drafted."""
        steps = self._total(tally.DECODED)
        return self._total(tally.SUSPENDED) / steps if steps else math.nan

    @property
    def cached_prompt_share(self) -> float:
        """Of tokens of prompts, those found in the cache."""
        found, read = self._total(tally.REUSED), self._total(tally.PREFILLED)
        return found / (found + read) if found + read else 0.0

    @property
    def availability(self) -> float:
        return 1 - self._total(tally.AWAY) / (self.simulated_replicas * self.seconds)

    @property
    def simulated_replicas(self) -> int:
        return self.sampled or self.fleet.replicas

    def meets(self, slo: Mapping[str, float]) -> bool:
        """Whether each percentile, such as `ttft_p95`, keeps its bound of seconds, by its value."""
        named = ((name.partition("_p"), bound) for name, bound in slo.items())
        return all(getattr(self, metric).quantile(int(q) / 100).value <= bound for (metric, _, q), bound in named)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; the keys are in docs/simulate.md. NaN is None."""
        figures = {
            "policy": self.fleet.replica.policy,
            "router": self.fleet.router,
            "replicas": self.fleet.replicas,
            "simulated_replicas": self.simulated_replicas,
            "seconds": self.seconds,
            "requests": self.requests,
            "refused": self.refused,
            "arrivals_per_s": self.arrivals_per_s,
            "requests_per_s": self.requests_per_s,
            "goodput_requests_per_s": self.goodput_requests_per_s,
            "output_tokens_per_s": self.output_tokens_per_s,
            "utilisation": self.utilisation,
            "mean_batch": self.mean_batch,
            "cache_use": self.cache_use,
            "preemptions_per_request": self.preemptions,
            "mean_acceptance_length": self.mean_acceptance_length,
            "suspended_share": self.suspended_share,
            "cached_prompt_share": self.cached_prompt_share,
            "availability": self.availability,
            "failures": self._total(tally.FAILED) * self.scale,
        }
        latency: dict[str, Any] = {}
        for name in METRICS:
            its: Latency = getattr(self, name)
            latency[f"{name}_ms_mean"] = _milliseconds(its.mean())
            latency |= {f"{name}_ms_p{q}": _milliseconds(its.quantile(q / 100)) for q in PERCENTILES}
        return {**{name: _known(value) for name, value in figures.items()}, **latency}

    def _latency(self, metric: int) -> Latency:
        return Latency(self.counted.histograms[metric], self.counted.sums[metric])

    def _total(self, column: int) -> float:
        return float(self.counted.totals[column])

    def _per_second(self, column: int) -> float:
        return self._total(column) * self.scale / self.seconds


def _milliseconds(figure: Range) -> dict[str, float | None]:
    return {name: _known(1e3 * value) for name, value in figure._asdict().items()}


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
