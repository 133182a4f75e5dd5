"""A fit in words and as JSON values: predicted beside measured, and what the parameters mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specbench.planning.cells import Point
from specbench.planning.machine import UNKNOWN
from specbench.planning.parameters import Model
from specbench.planning.prediction import LEVEL, Calibrated, Estimate

Floats = NDArray[np.float64]

_CHEAP = 0.01
_KNOWN = 0.5
"""Standard deviation of a logarithm up to which a parameter is worth a sentence."""


def sentences(found: Calibrated) -> list[str]:
    """What the fit says of the engine and of each arm."""
    model, theta = found.fit.model, found.fit.theta
    points = [o.point for o in found.fit.observations]
    said = [_engine(found, points)]
    for arm in model.arms:
        its = [p for p in points if p.gamma and (p.workload, p.method) == arm]
        said += [_costs(model, theta, its), _acceptance(model, theta, arm, max(p.gamma for p in its))]
    return said


def accuracy(found: Calibrated) -> str:
    """The held-out error, and what the intervals rest on."""
    cells = len(found.fit.observations)
    if found.mean_error is None:
        return f"{cells} cells are too few to hold one out: how far predictions are off is not known."
    worst = max(found.held_out, key=lambda h: abs(h.error))
    basis = (
        f"calibrated on the {cells} held-out cells"
        if found.basis == "held-out cells"
        else f"by Student's t, since {cells} cells are too few to calibrate them"
    )
    return (
        f"Held out in turn, cells are predicted within {found.mean_error:.1%} on average, at worst "
        f"{abs(np.expm1(-worst.error)):.0%} ({worst.observation.point.label}). Intervals of {LEVEL:.0%} are {basis}."
    )


def to_json(found: Calibrated, predicted: Sequence[Point], notes: Sequence[str]) -> dict[str, Any]:
    """One object of JSON values; the keys are in `specbench fit --help`."""
    theta, names = found.fit.theta, found.fit.model.names
    spread = np.sqrt(np.diag(found.fit.covariance))
    return {
        "cells": [
            {
                **_place(h.observation.point),
                "output_tokens_per_s": h.observation.tokens_per_second,
                "predicted": h.predicted,
                "error_percent": 100 * float(np.expm1(-h.error)),
                "spread_percent": 100 * h.spread,
            }
            for h in found.held_out
        ],
        "held_out_error_percent": None if found.mean_error is None else 100 * found.mean_error,
        "level": LEVEL,
        "interval_basis": found.basis,
        "interval_factor": found.factor,
        "noise_percent": 100 * found.fit.noise,
        "parameters": {n: {"value": float(v), "sd": float(s)} for n, v, s in zip(names, theta, spread, strict=True)},
        "predictions": [
            {**_place(p), "output_tokens_per_s": _estimate(rate), "speedup": _estimate(gain) if p.gamma else None}
            for p, rate, gain in zip(predicted, *figures(found, predicted), strict=True)
        ],
        "sentences": [*sentences(found), accuracy(found)],
        "notes": list(notes),
    }


def figures(found: Calibrated, points: Sequence[Point]) -> tuple[list[Estimate], list[Estimate]]:
    """Throughput and speedup at points."""
    return (found.throughput(points), found.speedup(points)) if points else ([], [])


def _engine(found: Calibrated, points: Sequence[Point]) -> str:
    model, theta = found.fit.model, found.fit.theta
    unsure = dict(zip(model.names, np.sqrt(np.diag(found.fit.covariance)), strict=True))
    one = min(points, key=lambda p: p.batch_size).plain
    efficiency = model.engine(theta)
    step = model.steps(theta, [one]).plain[0]
    said = f"A plain step takes {_time(step)} at batch {one.batch_size}"
    if unsure["overhead"] < _KNOWN:
        said += f", {_time(np.asarray(efficiency.overhead).item())} of it whatever is in it"
    if model.machine.spread < UNKNOWN.spread:
        memory, compute = (np.asarray(value).item() for value in (efficiency.memory, efficiency.compute))
        said += f"; it reads at {memory:.0%} of the memory's peak and computes at {compute:.0%} of the chip's"
        if max(memory, compute) > 1:
            said += ", which cannot be: these are not the rates of the machine that the run was measured on"
    return f"{said}."


def _costs(model: Model, theta: Floats, points: Sequence[Point]) -> str:
    """At the largest gamma, from the smallest to the largest batch size that was measured."""
    gamma = max(p.gamma for p in points)
    ends = sorted((p for p in points if p.gamma == gamma), key=lambda p: p.batch_size)
    steps = model.steps(theta, ends)
    verify, draft = steps.verify / steps.plain, steps.draft / steps.plain
    sizes = [p.batch_size for p in ends]
    tokens = 1 + gamma * ends[0].drafted_share
    words = f"{tokens:.0f} tokens" if ends[0].drafted_share == 1 else f"{tokens:.1f} tokens on average (γ {gamma})"
    return (
        f"{ends[0].workload}, {ends[0].method}: a verify of {words} costs {_over(verify, sizes, 'decodes')}; "
        f"its draft {_over(draft, sizes, '') if draft.max() >= _CHEAP else 'next to nothing'}."
    )


def _over(values: Floats, sizes: Sequence[int], unit: str) -> str:
    first = f"{values[0]:.2f}{f' {unit}' if unit else ''} at batch {sizes[0]}"
    return first if len(sizes) == 1 else f"{first}, {values[-1]:.2f} at batch {sizes[-1]}"


def _acceptance(model: Model, theta: Floats, arm: tuple[str, str], gamma: int) -> str:
    chances = model.hazards(theta, arm, gamma)
    lengths = np.cumprod(chances).sum() + 1
    later = f", the second in {chances[1]:.0%} of the steps that kept it" if gamma > 1 else ""
    last = f", the {gamma}th in {chances[-1]:.0%}" if gamma > 3 else ""
    return (
        f"{arm[0]}, {arm[1]}: the first draft position is kept in {chances[0]:.0%} of the steps{later}{last}: "
        f"{lengths:.2f} tokens per step at γ {gamma}."
    )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


def _place(p: Point) -> dict[str, Any]:
    return {"workload": p.workload, "method": p.method, "gamma": p.gamma, "batch_size": p.batch_size}


def _estimate(e: Estimate) -> Mapping[str, float]:
    return {"value": e.value, "low": e.low, "high": e.high}
