"""What a replica does at each batch size under a schedule of gamma: by the best estimate, and by all that may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from specbench.planning.cells import PLAIN, Point
from specbench.planning.fit import Fit, derivative
from specbench.planning.parameters import Model
from specbench.planning.sizing.demand import Demand
from specbench.schedule import Schedule

Floats = NDArray[np.float64]
Arm = tuple[str, str]

Gammas = Schedule | None
"""Gamma by batch size; None where nothing is ever drafted."""


@dataclass(frozen=True)
class Service:
    """sizes: batch sizes, growing, from 1 on [k];  step: seconds;  length: tokens per step [draws, k]
    prefill: seconds of one request's [draws, 1]
    """

    sizes: Floats
    step: Floats
    length: Floats
    prefill: Floats


def services(
    fit: Fit, arm: Arm, drafted_share: float, gammas: Gammas, demand: Demand, sizes: Sequence[int], shifts: Floats
) -> Service:
    """shifts: of the parameters from their best estimate [draws, parameters]; a row of zeros is the estimate itself

    After a fit logarithms of times and lengths follow a shift linearly. So they stay what the cells say where these
    cannot tell two parameters apart, and a shift along that ridge would leave it (see `Fit.sensitivity`). A prior has
    no such ridge and is wide: there they are what the model says.
    """
    workload, method = arm
    points = [
        Point(
            workload,
            method if gamma else PLAIN,
            gamma,
            size,
            demand.prompt_tokens,
            demand.output_tokens,
            drafted_share if gamma else 1.0,
        )
        for size in sizes
        for gamma in (gamma_at(gammas, size),)
    ]

    def logarithms(theta: Floats) -> Floats:
        s = fit.model.steps(theta, points)
        return np.concatenate([np.log(s.draft + s.verify), np.log(s.length), np.log(s.prefill[..., :1])], axis=-1)

    if fit.observations:
        values = np.exp(logarithms(fit.theta) + shifts @ derivative(logarithms, fit.theta).T)
    else:
        values = np.exp(logarithms(fit.theta + shifts))
    step, length, prefill = np.split(values, [len(points), 2 * len(points)], axis=-1)
    return Service(np.array(sizes, float), step, np.maximum(length, 1.0), prefill)


def best_schedule(
    model: Model, theta: Floats, arm: Arm, drafted_share: float, gammas: Sequence[int], demand: Demand, largest: int
) -> Gammas:
    """At every batch size up to the largest the gamma that commits most tokens per second of decoding; 0 where none
    beats plain decoding (the goodput rule of SmartSpec, Liu et al., 2024).
    """
    sizes, prompt, output = range(1, largest + 1), demand.prompt_tokens, demand.output_tokens
    plain = model.steps(theta, [Point(arm[0], PLAIN, 0, size, prompt, output) for size in sizes])
    gains = [1 / plain.plain]
    for gamma in gammas:
        s = model.steps(theta, [Point(*arm, gamma, size, prompt, output, drafted_share) for size in sizes])
        gains.append(s.length / (s.draft + s.verify))
    chosen = np.array([0, *gammas])[np.argmax(gains, axis=0)]
    if not chosen.any():
        return None
    return Schedule.of({size: int(gamma) for size, gamma in zip(sizes, chosen, strict=True)})


def gamma_at(gammas: Gammas, batch_size: int) -> int:
    return gammas.at(batch_size) if gammas else 0


def largest_gamma(gammas: Gammas) -> int:
    return gammas.largest if gammas else 0
