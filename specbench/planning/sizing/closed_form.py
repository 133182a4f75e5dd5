"""A replica under load in closed form: rate and latencies by requests in flight, and the largest rate under an SLO.

Where to start the simulator from, and how its figure moves with what is not known for sure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.planning.sizing.services import Service

Floats = NDArray[np.float64]

_FEW = 0.02
"""Requests in flight, on average, of a replica that is nearly always idle."""


@dataclass(frozen=True)
class Load:
    """By mean number of requests in flight, growing [draws, k]. rate: requests per second; the others seconds

    ttft: holds the percentiles' tail;  tpot, e2e: means
    """

    rate: Floats
    ttft: Floats
    tpot: Floats
    e2e: Floats


def load(service: Service, output_tokens: float, percentile: float = 0.5) -> Load:
    """With B in flight a request takes its prefill, in which all others wait, and its share of (output − 1) / τ steps:
    B = λ · (time in the replica) is then a fixed point by construction (Little, 1961).

    Until its first token a request waits for the step that runs and, in a queue with exponential tail, for prefills.
    """
    idle = np.concatenate([[_FEW], service.sizes])
    step, length = (np.concatenate([values[:, :1], values], axis=-1) for values in (service.step, service.length))
    steps = (output_tokens - 1) / length
    each = service.prefill + steps * step / idle
    rate, stay = 1 / each, idle * each
    prefilling = rate * service.prefill
    queue = prefilling * service.prefill / (2 * (1 - prefilling))
    ttft = service.prefill + step / 2 - math.log(1 - percentile) * queue
    # Alone, a request decodes at the speed of a batch of one, however seldom it comes.
    decoding = np.maximum(stay - service.prefill, steps * step)
    return Load(rate, ttft, decoding / max(output_tokens - 1, 1.0), ttft + decoding)


def capacity(service: Service, output_tokens: float, slo: Mapping[str, float], largest: float) -> Floats:
    """Largest requests per second [draws] at which each bound holds with no more than `largest` in flight; 0 where none
    does, even for a request alone. slo: seconds by name, as in ttft_p95
    """
    over = np.full((len(service.step), len(service.sizes) + 1), -np.inf)
    for name, bound in slo.items():
        metric, percentile = name.split("_p")
        figure = getattr(load(service, output_tokens, int(percentile) / 100), metric)
        over = np.maximum(over, np.log(figure / bound))
    over = np.maximum.accumulate(over, axis=-1)
    rate = np.log(load(service, output_tokens).rate)
    inside = np.concatenate([[True], service.sizes <= largest]) & (over <= 0)
    last = inside.sum(axis=-1) - 1
    following = np.minimum(last + 1, rate.shape[-1] - 1)
    at = np.arange(len(rate))
    here, there = over[at, last], over[at, following]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where((there > 0) & np.isfinite(here), -here / (there - here), 0.0)
    found = np.exp(rate[at, last] + share * (rate[at, following] - rate[at, last]))
    return np.where(last < 0, 0.0, found)
