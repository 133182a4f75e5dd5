"""What a request rate makes of a closed loop's throughput: how many requests there are at once, how long each takes.

A closed loop of n requests that finishes X(n) per second is a server whose rate of completion is X(n) while n requests
are there (the flow-equivalent server of Chandy, Herzog and Woo, 1975). Poisson arrivals at λ then make a birth-death
process with p(n) ∝ Π λ / X(k), the same for every distribution of lengths where requests share the server evenly. Its
mean N and the mean latency W fulfil N = λ·W (Little, 1961): the fixed point of concurrency and latency, with the
fluctuation around it that a fixed point alone would leave out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from specbench.recommend.curves import GammaByBatch
from specbench.recommend.draws import Floats, Range
from specbench.recommend.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Load:
    """A server under requests that come at a rate.

    concurrency: mean number of requests there, waiting ones among them;  latency: mean seconds from arrival to end
    capacity: requests per second that it can serve at the largest measured batch size
    waiting: share of time in which more requests are there than that, so that some wait
    None where it cannot keep up.
    """

    concurrency: Range
    latency: Range
    capacity: Range
    waiting: float | None


@dataclass(frozen=True, slots=True)
class AtRate:
    """What speculation does at a request rate.

    latency_speedup: mean latency without over with;  concurrency: with, over without
    refused: why there is no prediction; the other fields are then None
    """

    rate: float
    plain: Load | None = None
    speculative: Load | None = None
    latency_speedup: Range | None = None
    refused: str | None = None


def at_rate(evidence: Evidence, method: GammaByBatch, rate: float) -> AtRate:
    """Both arms at `rate` requests per second, with the method's gamma by batch size in one of them."""
    sizes = np.array(sorted(evidence.log_rates), dtype=float)
    if not len(sizes):
        return AtRate(rate, refused="the baseline has no steady window at any batch size: use more prompts.")
    if sizes[0] != 1 or len(sizes) < 2:
        return AtRate(
            rate,
            refused=f"at a rate a request is often alone, and the run has batch size {sizes[0]:.0f} to "
            f"{sizes[-1]:.0f}: measure from 1 on, as in --batch-size 1,4,8.",
        )
    point = np.array([evidence.log_rates[int(size)][0] for size in sizes])[None]
    draws = np.stack([evidence.log_rates[int(size)][1] for size in sizes], axis=1)
    largest = int(sizes[-1])
    plain, plain_draws = _service(sizes, point), _service(sizes, draws)
    gain = [method.at(size) for size in range(1, largest + 1)]
    faster = plain * np.exp([[centre for centre, _ in gain]])
    faster_draws = plain_draws * np.exp(np.stack([drawn for _, drawn in gain], axis=1))
    capacity = max(float(plain[0, -1]), float(faster[0, -1]))
    if rate >= capacity:
        return AtRate(
            rate,
            refused=f"{rate:g} requests/s is more than the {capacity:.3g} that are served at batch size {largest}, the "
            f"largest measured one: measure larger ones, as in --batch-size {largest},{2 * largest},{4 * largest}.",
        )
    loads = [_load(rate, *curves) for curves in ((plain, plain_draws), (faster, faster_draws))]
    (one, one_draws), (two, two_draws) = loads
    ratio = None
    if one.latency.value is not None and two.latency.value is not None:
        with np.errstate(invalid="ignore"):
            drawn = np.nan_to_num(one_draws / two_draws, nan=1.0, posinf=np.inf)
        ratio = Range.of(one.latency.value / two.latency.value, drawn)
    return AtRate(rate, one, two, ratio)


def _service(sizes: Floats, log_rates: Floats) -> Floats:
    """sizes [k], log_rates [n, k] -> requests per second at 1, 2, … the largest size [n, largest].

    ln rate is a line over ln batch size between two measured ones, so it stays between them (monotone).
    """
    whole = np.log(np.arange(1, int(sizes[-1]) + 1))
    return np.asarray(np.exp(np.stack([np.interp(whole, np.log(sizes), row) for row in log_rates])))


def _load(rate: float, service: Floats, drawn_service: Floats) -> tuple[Load, Floats]:
    """service [1, n], drawn_service [draws, n] -> the load, and draws of its latency."""
    concurrency, waiting = _occupancy(rate, service)
    drawn, _ = _occupancy(rate, drawn_service)
    known = bool(np.isfinite(concurrency[0]))
    value = float(concurrency[0])
    return (
        Load(
            Range.of(value, drawn),
            Range.of(value / rate, drawn / rate),
            Range.of(float(service[0, -1]), drawn_service[:, -1]),
            float(waiting[0]) if known else None,
        ),
        drawn / rate,
    )


def _occupancy(rate: float, service: Floats) -> tuple[Floats, Floats]:
    """service [n, limit] -> mean number of requests [n], and the share of time with more than `limit` of them [n].

    Beyond the limit requests wait: the rate of completion stays the limit's, and the tail is geometric. Infinite where
    more come than are served.
    """
    limit = service.shape[1]
    weights = np.cumsum(np.log(rate) - np.log(service), axis=1)  # ln p(n) - ln p(0), n = 1..limit
    highest = np.maximum(weights.max(axis=1, keepdims=True), 0.0)
    p = np.exp(np.concatenate([np.zeros((len(service), 1)), weights], axis=1) - highest)
    load = rate / service[:, -1]
    with np.errstate(divide="ignore", invalid="ignore"):
        tail = p[:, -1] * load / (1 - load)
        total = p.sum(axis=1) + tail
        mean = (p @ np.arange(limit + 1) + tail * (limit + 1 / (1 - load))) / total
        waiting = tail / total
    saturated = load >= 1
    return np.where(saturated, math.inf, mean), np.where(saturated, 1.0, waiting)
