"""What would change the decision: the monthly saving as each input goes over its range, all else as planned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from scipy.special import expit

from specbench.planning.sizing.case import Case
from specbench.planning.sizing.shifts import Shifts

_DEVIATIONS = (-1.645, 1.645)
"""The ends of a 90 % interval."""
_SHARES = ("memory", "compute")
"""Parameters whose logarithm is 0 at most."""


@dataclass(frozen=True)
class Swing:
    """low, high: the input's ends, in words;  saving_low, saving_high: per month there
    flips: whether speculation pays at one end and not as planned, or the other way round
    """

    what: str
    low: str
    high: str
    saving_low: float
    saving_high: float
    flips: bool

    @property
    def width(self) -> float:
        return abs(self.saving_high - self.saving_low)


def swings(case: Case, prices: tuple[float, float], needed: float, currency: str) -> tuple[Swing, ...]:
    """The widest first. prices: the range of a GPU-hour's;  needed: saving per month from which on it pays"""
    planned = _saving(case)
    found = []
    for what, (low, high), (at_low, at_high) in [*_fitted(case), *_chosen(case, prices, currency)]:
        flips = any((saving > needed) != (planned > needed) for saving in (at_low, at_high))
        found.append(Swing(what, low, high, at_low, at_high, flips))
    return tuple(sorted((s for s in found if s.width > 0), key=lambda s: (not s.flips, -s.width)))


_Row = tuple[str, tuple[str, str], tuple[float, float]]


def _fitted(case: Case) -> Iterator[_Row]:
    """Parameters over their own 90 % intervals, and those that go with them."""
    model, theta = case.fit.model, case.fit.theta
    workload, method = case.arm
    prefix = f"{workload}.{method}"
    groups: Sequence[tuple[str, tuple[str, ...], Callable[[float], str]]] = (
        ("acceptance of the first token", (f"{prefix}.first", f"{prefix}.later"), lambda v: f"{expit(v):.0%}"),
        ("cost of a draft pass, in plain steps", (f"{method}.ratio",), lambda v: f"{math.exp(v):.3f}"),
        ("overhead of a draft pass", (f"{method}.overhead",), lambda v: f"{1e3 * math.exp(v):.2g} ms"),
        ("overhead of a step", ("overhead",), lambda v: f"{1e3 * math.exp(v):.2g} ms"),
        ("memory rate, of the peak", ("memory",), lambda v: f"{math.exp(v):.0%}"),
        ("arithmetic, of the peak", ("compute",), lambda v: f"{math.exp(v):.0%}"),
        ("prefill, over a pass of as many tokens", ("prefill",), lambda v: f"{math.exp(v):.2f}"),
    )
    for what, names, shown in groups:
        at = model.names.index(names[0])
        shifts = Shifts.along(case.fit, names, _DEVIATIONS)
        if names[0] in _SHARES and (up := shifts.theta[1, at]) > 0:
            # No machine reaches more than its peak.
            shifts.theta[1] *= min(1.0, max(0.0, -theta[at] / up))
        low, high = (shown(theta[at] + shift) for shift in shifts.theta[:, at])
        at_low, at_high = (float(value) for value in case.saving(shifts))
        yield what, (low, high), (at_low, at_high)


def _chosen(case: Case, prices: tuple[float, float], currency: str) -> Iterator[_Row]:
    """Inputs that a user gave or that specbench took for granted."""
    d = case.demand

    def row(what: str, ends: tuple[str, str], cases: tuple[Case, Case]) -> _Row:
        return what, ends, (_saving(cases[0]), _saving(cases[1]))

    def with_demands(what: str, change: Callable[[float], Case], value: float, unit: str) -> _Row:
        return row(what, (f"{_short(value / 2)}{unit}", f"{_short(value * 2)}{unit}"), (change(0.5), change(2.0)))

    yield with_demands("traffic", lambda f: replace(case, demand=d.times(f)), d.peak, " req/s")
    yield with_demands("prompt length", lambda f: replace(case, demand=d.longer(prompt=f)), d.prompt_tokens, " tokens")
    yield with_demands("output length", lambda f: replace(case, demand=d.longer(output=f)), d.output_tokens, " tokens")
    yield row(
        "price of a GPU-hour",
        (f"{prices[0]:.2f} {currency}", f"{prices[1]:.2f} {currency}"),
        (replace(case, price=prices[0]), replace(case, price=prices[1])),
    )
    yield row("headroom", ("10%", "40%"), (replace(case, headroom=0.1), replace(case, headroom=0.4)))
    for name, bound in case.slo.items():
        yield row(
            name.replace("_", " "),
            (f"{1e3 * bound * 0.8:.3g} ms", f"{1e3 * bound * 1.25:.3g} ms"),
            (replace(case, slo={**case.slo, name: bound * 0.8}), replace(case, slo={**case.slo, name: bound * 1.25})),
        )


def _saving(case: Case) -> float:
    return float(case.saving(Shifts.none(case.fit))[0])


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
