"""Simulations as a table: a figure per row, a policy per column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from specbench.planning.simulator.outcome import PERCENTILES, Outcome, Range
from specbench.planning.simulator.tally import METRICS

ORACLE = "oracle"

_NAMES = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "E2E", "wait": "queue wait"}


def heading(outcome: Outcome) -> str:
    fleet = outcome.fleet
    return f"{fleet.replicas} simulated {'replicas' if fleet.replicas > 1 else 'replica'}, {fleet.router}"


def columns(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    return ("figure", *(o.fleet.replica.policy for o in outcomes))


def rows(outcomes: Sequence[Outcome], slo: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Latencies with their intervals; what a row cannot say of any policy is left out."""
    found = [
        ("requests/s, in and out", *(f"{o.arrivals_per_s:.4g}, {o.requests_per_s:.4g}" for o in outcomes)),
        ("output tokens/s", *(f"{o.output_tokens_per_s:.4g}" for o in outcomes)),
    ]
    for metric in METRICS:
        for q in PERCENTILES:
            figures = (getattr(o, metric).quantile(q / 100) for o in outcomes)
            found.append((f"{_NAMES[metric]} p{q}, ms", *map(_milliseconds, figures)))
    if slo:
        found += [
            ("objective kept", *("yes" if o.meets(slo) else "no" for o in outcomes)),
            ("goodput, requests/s", *(f"{o.goodput_requests_per_s:.4g}" for o in outcomes)),
        ]
    found += [
        ("replicas busy", *(f"{o.utilisation:.1%}" for o in outcomes)),
        ("sequences in a step", *(f"{o.mean_batch:.3g}" for o in outcomes)),
        ("cache in use", *(f"{o.cache_use:.1%}" for o in outcomes)),
        ("preemptions per request", *(f"{o.preemptions:.2g}" for o in outcomes)),
    ]
    if any(o.mean_acceptance_length > 1 for o in outcomes):
        found += [
            ("tokens per step", *(f"{o.mean_acceptance_length:.2f}" for o in outcomes)),
            ("steps without a draft", *(f"{o.suspended_share:.0%}" for o in outcomes)),
        ]
    if any(o.cached_prompt_share for o in outcomes):
        found.append(("prompt tokens found in the cache", *(f"{o.cached_prompt_share:.1%}" for o in outcomes)))
    if any(o.fleet.failures for o in outcomes):
        found.append(("replicas up", *(f"{o.availability:.2%}" for o in outcomes)))
    if any(o.fleet.replica.policy.startswith(ORACLE) for o in outcomes) and len(outcomes) > 1:
        regrets = (regret(o, outcomes) for o in outcomes)
        found.append(("E2E over the oracle's", *("–" if r is None else f"{r:+.1%}" for r in regrets)))
    return found


def regret(outcome: Outcome, outcomes: Sequence[Outcome]) -> float | None:
    """Mean end-to-end latency over that of the oracle among them, −1: the same requests, so the noise is small."""
    best = next((o for o in outcomes if o.fleet.replica.policy.startswith(ORACLE)), None)
    if best is None or best.e2e.count == 0:
        return None
    return outcome.e2e.mean().value / best.e2e.mean().value - 1


def _milliseconds(figure: Range) -> str:
    if math.isnan(figure.value):
        return "–"
    value, low, high = (f"{1e3 * x:.0f}" if x >= 0.1 else f"{1e3 * x:.3g}" for x in figure)
    return value if math.isnan(figure.low) else f"{value} [{low}, {high}]"
