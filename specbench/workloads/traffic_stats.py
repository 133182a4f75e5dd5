"""What traffic is like: its rate over time, how bursty it is, how long requests are, tokens per second."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.errors import SpecbenchError
from specbench.workloads.traffic import Traffic

MOST_BINS = 24
_WIDTHS = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 14_400, 86_400)
"""Seconds of a bin: what people divide time into."""


@dataclass(frozen=True, slots=True)
class LengthStats:
    """Tokens per request."""

    mean: float
    sd: float
    p50: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class TrafficStats:
    """Figures of traffic; rates are per second.

    span_s:  from the first arrival to the last
    gaps_cv: standard deviation over mean of the gaps between arrivals: 1 is Poisson, more is burstier
    busiest_requests_per_s: of the bins of `rate`;  rate: (from, to, requests per second) in seconds since the first
    sessions: different ones, None where the traffic does not say
    """

    requests: int
    span_s: float
    requests_per_s: float
    busiest_requests_per_s: float
    gaps_cv: float
    prompt_tokens: LengthStats
    output_tokens: LengthStats
    prompt_tokens_per_s: float
    output_tokens_per_s: float
    sessions: int | None
    rate: tuple[tuple[float, float, float], ...]

    def to_json(self) -> dict[str, Any]:
        bins = [{"from_s": begin, "to_s": end, "requests_per_s": rate} for begin, end, rate in self.rate]
        return {**asdict(self), "rate": bins}


def traffic_stats(traffic: Traffic) -> TrafficStats:
    """Raises SpecbenchError for fewer than two arrivals at different times, which have no rate."""
    if len(traffic) < 2 or traffic.arrival[-1] == 0:
        raise SpecbenchError("the traffic is fewer than two requests at different times. Give more of it.")
    gaps = np.diff(traffic.arrival)
    span = float(traffic.arrival[-1])
    rate = len(gaps) / span
    prompt, output = _lengths(traffic.prompt_tokens), _lengths(traffic.output_tokens)
    over_time = _over_time(traffic.arrival)
    return TrafficStats(
        requests=len(traffic),
        span_s=span,
        requests_per_s=rate,
        busiest_requests_per_s=max(r for *_, r in over_time),
        gaps_cv=float(gaps.std() / gaps.mean()),
        prompt_tokens=prompt,
        output_tokens=output,
        prompt_tokens_per_s=rate * prompt.mean,
        output_tokens_per_s=rate * output.mean,
        sessions=None if traffic.session is None else len(np.unique(traffic.session)),
        rate=over_time,
    )


def _lengths(tokens: NDArray[np.int32]) -> LengthStats:
    p50, p95 = np.percentile(tokens, [50, 95])
    return LengthStats(float(tokens.mean()), float(tokens.std()), float(p50), float(p95), float(tokens.max()))


def _over_time(arrival: NDArray[np.float64]) -> tuple[tuple[float, float, float], ...]:
    """Bins of equal width but the last, which ends with the traffic and is half as wide at least: in the moment before
    the end there always is a request, and its rate would be any.
    """
    span = float(arrival[-1])
    width = next((w for w in _WIDTHS if span <= w * MOST_BINS), _WIDTHS[-1] * np.ceil(span / _WIDTHS[-1] / MOST_BINS))
    edges = np.append(np.arange(0, max(span - width / 2, span / 2), width), span)
    counts, _ = np.histogram(arrival, edges)
    return tuple(
        (float(begin), float(end), float(count / (end - begin)))
        for begin, end, count in zip(edges[:-1], edges[1:], counts, strict=True)
    )
