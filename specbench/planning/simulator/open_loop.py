"""The simulator against a real server: fitted to some open loops, it predicts what users of others waited for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares
from scipy.special import logit

from specbench.planning.cells import PLAIN, drafts_at_once
from specbench.planning.machine import Machine
from specbench.planning.parameters import Model
from specbench.planning.shape import ModelShape
from specbench.planning.simulator.compiled import entry
from specbench.planning.simulator.fleet import Acceptance, Fleet, Replica
from specbench.planning.simulator.run import simulate
from specbench.planning.simulator.seen_steps import Steps, seen_steps
from specbench.planning.simulator.spread import kept_by_step, spread
from specbench.planning.simulator.step_time import Cost, decode_seconds, prefill_seconds
from specbench.replay.timeline import e2e, tpot, ttft
from specbench.store.measurement import Measurement
from specbench.workloads.traffic import Traffic

Floats = NDArray[np.float64]

METRICS = ("ttft", "tpot", "e2e")
STATISTICS = ("mean", "p95")

_NOISE = 0.1
"""Standard deviation of ln seconds of one step that a client sees."""
_RUNS = 20
"""Simulations of one open loop with speculation, whose acceptance is drawn."""
_RESAMPLES, _BLOCK = 2000, 10
_OUTSIDE = (math.log(3e-3), 1.5)
"""Prior of ln seconds that a request spends on its way to the engine and back."""


@dataclass(frozen=True)
class Served:
    """A server as fitted. outside: seconds before the engine sees a request and after it has its first token
    closing: seconds from the last token to the end of the stream
    """

    model: Model
    theta: Floats
    acceptance: Mapping[str, Acceptance]
    drafted_share: Mapping[str, float]
    outside: float
    closing: float
    max_batch_size: int

    def replica(self, method: str, gamma: int) -> Replica:
        return _replica(
            self.model, self.theta, method, gamma, self.drafted_share, self.max_batch_size, self.acceptance.get(method)
        )


def serve(loops: Sequence[Measurement], shape: ModelShape, machine: Machine) -> Served:
    """Fit the performance model to the steps that the streams show, and acceptance to the sizes of their chunks."""
    speculative = [m for m in loops if m.cell.speculation.gamma]
    model = Model(shape, machine, tuple(dict.fromkeys(_arm(m) for m in speculative)))
    by_method = {method: [m for m in speculative if _arm(m)[1] == method] for method in model.methods}
    shares = {method: _drafted_share(its) for method, its in by_method.items()}
    seen: dict[tuple[str, int], Steps] = {}
    for method, gamma in dict.fromkeys(_method(m) for m in loops):
        parts = (seen_steps(m.traces, gamma) for m in loops if _method(m) == (method, gamma))
        seen[method, gamma] = Steps.together(parts)
    theta, outside = _fit(model, seen, shares)
    ends = [t.finished - t.chunk_times[-1] for m in loops for t in m.traces if t.chunk_times]
    return Served(
        model,
        theta,
        {method: _acceptance(its) for method, its in by_method.items()},
        shares,
        outside,
        float(np.median(ends)),
        max(m.cell.batch_size for m in loops),
    )


def predict(served: Served, loop: Measurement, seed: int = 0) -> dict[str, float]:
    """Seconds of METRICS × STATISTICS, as `ttft_mean`, of the loop's own requests at the times at which they came."""
    method, gamma = _method(loop)
    fleet = Fleet(served.replica(method, gamma), 1, "round-robin")
    traffic = _traffic(loop)
    runs = [simulate(fleet, traffic, seed + k, warm_up=0.0) for k in range(_RUNS if gamma else 1)]
    extra = {"ttft": served.outside, "tpot": 0.0, "e2e": served.outside + served.closing}
    found = {}
    for metric in METRICS:
        its = [getattr(run, metric) for run in runs]
        found[f"{metric}_mean"] = extra[metric] + float(np.mean([x.mean().value for x in its]))
        found[f"{metric}_p95"] = extra[metric] + float(np.mean([x.quantile(0.95).value for x in its]))
    return found


def observed(loop: Measurement) -> dict[str, tuple[float, float, float]]:
    """The same as measured, with its 95 % interval: a bootstrap over blocks of requests that follow each other, since
    they wait for each other (Künsch, 1989).
    """
    traces = sorted((t for t in loop.traces if t.error is None and t.chunk_times), key=lambda t: t.scheduled)
    found = {}
    for metric, of in zip(METRICS, (ttft, tpot, e2e), strict=True):
        values = np.array([v for t in traces if (v := of(t)) is not None])
        length = min(_BLOCK, len(values))
        starts = np.random.default_rng(0).integers(0, len(values) - length + 1, (_RESAMPLES, -(-len(values) // length)))
        drawn = values[(starts[..., None] + np.arange(length)).reshape(_RESAMPLES, -1)]
        for statistic in STATISTICS:
            low, high = np.quantile(_statistic(drawn, statistic), [0.025, 0.975])
            found[f"{metric}_{statistic}"] = (float(_statistic(values, statistic)), float(low), float(high))
    return found


def _statistic(values: Floats, name: str) -> Floats:
    """Of the last axis. The 95th percentile is a value that is there, as in the histograms of a simulation."""
    if name == "mean":
        return np.asarray(values.mean(axis=-1))
    return np.asarray(np.quantile(values, 0.95, axis=-1, method="inverted_cdf"))


def _traffic(loop: Measurement) -> Traffic:
    traces = sorted((t for t in loop.traces if t.error is None and t.chunk_times), key=lambda t: t.scheduled)
    due = np.array([t.scheduled for t in traces])
    return Traffic(
        due - due[0],
        np.array([t.prompt_tokens or 1 for t in traces], np.int32),
        np.array([t.output_tokens for t in traces], np.int32),
    )


def _arm(m: Measurement) -> tuple[str, str]:
    return m.cell.workload, m.cell.speculation.name


def _method(m: Measurement) -> tuple[str, int]:
    gamma = m.cell.speculation.gamma
    return (m.cell.speculation.name if gamma else PLAIN), gamma


def _replica(
    model: Model,
    theta: Floats,
    method: str,
    gamma: int,
    shares: Mapping[str, float],
    max_batch_size: int,
    acceptance: Acceptance | None,
) -> Replica:
    return Replica(
        model=model.shape,
        machine=model.machine,
        efficiency=model.engine(theta),
        drafting=model.drafting(theta, method) if gamma else None,
        acceptance=acceptance,
        policy=f"fixed:{gamma}" if gamma else "none",
        max_batch_size=max_batch_size,
        at_once=drafts_at_once(method),
        drafted_share=shares.get(method, 1.0),
        chunked=True,
    )


def _fit(model: Model, seen: Mapping[tuple[str, int], Steps], shares: Mapping[str, float]) -> tuple[Floats, float]:
    """The engine's and the drafters' parameters, and the seconds outside, by least squares with the model's prior."""
    prior = model.prior()
    free = len(prior.mean) - 3 * len(model.arms)
    mean, spread = np.append(prior.mean[:free], _OUTSIDE[0]), np.append(prior.spread[:free], _OUTSIDE[1])

    def residuals(x: Floats) -> Floats:
        theta = np.concatenate([x[:-1], prior.mean[free:]])
        rows = [(x - mean) / spread]
        for (method, gamma), steps in seen.items():
            stand_in = Acceptance(0.0, 0.0)
            cost = Cost.of(_replica(model, theta, method, gamma, shares, 1, stand_in if gamma else None))
            expected = _seconds(cost, steps) + np.where(steps.outside, math.exp(x[-1]), 0.0)
            rows.append(np.sqrt(steps.weight) * (np.log(expected) - np.log(steps.seconds)) / _NOISE)
        return np.concatenate(rows)

    found = least_squares(residuals, mean, x_scale=spread, loss="soft_l1", f_scale=2.0, max_nfev=200)
    return np.concatenate([found.x[:-1], prior.mean[free:]]), math.exp(found.x[-1])


@entry
def _seconds(cost: Cost, steps: Steps) -> Floats:
    found = np.zeros(len(steps.seconds))
    for k in range(len(found)):
        sequences, cached, gamma = steps.sequences[k], steps.cached[k], int(steps.gamma[k])
        if sequences > 0:
            found[k] = decode_seconds(cost, gamma, sequences, cached)
        if steps.prompts[k] > 0:
            judged = 1 + gamma * cost.drafted_share
            found[k] += prefill_seconds(
                cost,
                (steps.prompt_tokens[k], steps.prompts[k], steps.prompt_tokens[k] / 2, steps.attended[k]),
                (sequences * judged, sequences, cached, cached * judged),
            )
    return found


def _drafted_share(loops: Sequence[Measurement]) -> float:
    """Tokens drafted per step over gamma; 1 where the engine does not tell."""
    told = [(t.acceptance, m.cell.speculation.gamma) for m in loops for t in m.traces if t.acceptance is not None]
    possible = sum(a.steps * gamma for a, gamma in told if a.drafted is not None)
    drafted = sum(a.drafted for a, _ in told if a.drafted is not None)
    return min(1.0, drafted / possible) if drafted else 1.0


def _acceptance(loops: Sequence[Measurement]) -> Acceptance:
    gamma = max(m.cell.speculation.gamma for m in loops)
    kept = [k for m in loops for k in kept_by_step(m.traces, gamma)]
    steps = np.concatenate(kept)
    reached = np.array([np.mean(steps >= k) for k in range(gamma + 1)])
    chances = np.clip(reached[1:] / np.maximum(reached[:-1], 1e-9), 0.001, 0.999)
    first, *others = logit(chances).tolist()
    slope, later = np.polyfit(np.arange(len(others)), others, 1) if len(others) > 1 else (0.0, [*others, first][0])
    return Acceptance(first, float(later), float(slope), spread(kept))
