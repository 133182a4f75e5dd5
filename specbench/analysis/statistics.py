"""Confidence intervals for a ratio of two arms, each named after what it takes as independent."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from specbench.analysis.bootstrap import cluster_shifts

_Floats = npt.NDArray[np.float64]
Basis = Literal[
    "replicates",
    "always-valid",
    "within one launch, by prompt",
    "within one launch, by time block",
    "within one launch, by turns",
    "predicted, 90 %",
]

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided 95 % interval of a ratio. `basis` is what varies in it: server launches, or the inside of one."""

    low: float
    high: float
    basis: Basis


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean of logarithms, and what is known of its error (Student's t).

    mean:  of log ratios: 0 is no change
    error: standard error of `mean`
    dof:   degrees of freedom that `error` rests on
    """

    mean: float
    error: float
    dof: float

    def margin(self, level: float = LEVEL) -> float:
        """Half the width of the two-sided interval around `mean`."""
        return float(stdtrit(self.dof, 0.5 + level / 2)) * self.error

    def p_below(self, bound: float) -> float:
        """p-value of "the truth is at or above `bound`": small where it is surely below."""
        return float(stdtr(self.dof, self._t(bound)))

    def p_above(self, bound: float) -> float:
        """p-value of "the truth is at or below `bound`": small where it is surely above."""
        return float(stdtr(self.dof, -self._t(bound)))

    def _t(self, bound: float) -> float:
        distance = self.mean - bound
        if self.error == 0:
            return math.copysign(math.inf, distance) if distance else 0.0
        return distance / self.error


def paired(log_ratios: Sequence[float]) -> Estimate:
    """Over the log ratios of R ≥ 2 pairs: the mean, s / √R, R − 1."""
    d = np.asarray(log_ratios, dtype=float)
    return Estimate(float(d.mean()), float(d.std(ddof=1)) / math.sqrt(len(d)), len(d) - 1)


def unpaired(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """Change of the mean between two sets of two or more logarithms that nothing pairs (Welch, 1947).

    What sets two runs of different days apart is not in it. Of throughput it calls such a day a regression far too
    often; of speedup, which a day's drift moves in both arms alike, it does not (benchmarks/decision_rule.py).
    """
    squares = [float(np.var(arm, ddof=1)) / len(arm) for arm in (before, after)]
    mean, variance = float(np.mean(after) - np.mean(before)), sum(squares)
    parts = sum(square**2 / (len(arm) - 1) for square, arm in zip(squares, (before, after), strict=True))
    dof = variance**2 / parts if parts else float(len(before) + len(after) - 2)
    return Estimate(mean, math.sqrt(variance), dof)


def replicate_interval(log_ratios: Sequence[float]) -> Interval:
    """exp(mean ± t(R-1) · s / √R) over the log ratios of R ≥ 2 paired replicates (Student's t on logarithms).

    For a number of replicates that was fixed beforehand: whoever adds some until they like the interval needs
    `sequential.always_valid_interval`.
    """
    return around(paired(log_ratios), "replicates")


def around(estimate: Estimate, basis: Basis) -> Interval:
    """The interval of the ratio whose logarithm is estimated."""
    margin = estimate.margin()
    return Interval(math.exp(estimate.mean - margin), math.exp(estimate.mean + margin), basis)


@dataclass(frozen=True, slots=True)
class Work:
    """Output tokens of some requests and the seconds these requests took. Adds up."""

    tokens: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Work) -> Work:
        return Work(self.tokens + other.tokens, self.seconds + other.seconds)


def work_log_ratio(speculative: Mapping[str, Work], baseline: Mapping[str, Work]) -> float | None:
    """Log ratio of Σ tokens / Σ request seconds over the prompts that both arms have; None without such a prompt.

    In a closed loop of B slots the request times of all slots fill B times the wall time, so this is the log ratio of
    throughput, seen request by request.
    """
    total = _paired_work(speculative, baseline).sum(axis=0, keepdims=True)
    return float(_log_ratios(total)[0]) if np.all(total > 0) else None


def prompt_interval(speculative: Mapping[str, Work], baseline: Mapping[str, Work], centre: float) -> Interval | None:
    """Paired cluster bootstrap within one launch: prompts are resampled, jointly in both arms.

    centre: the log ratio of throughput in the steady window, on which the interval is put
    Returns None where fewer than two prompts are in both arms.

    Requests of one prompt (cycled prompts, repeats) are one cluster. It says nothing of how launches differ.
    """
    shifts = prompt_shifts(speculative, baseline)
    if shifts is None:
        return None
    low, high = np.quantile(shifts, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    # A skewed bootstrap may leave its own centre out; the interval of a figure must hold the figure.
    ends = math.exp(centre + min(low, 0.0)), math.exp(centre + max(high, 0.0))
    return Interval(*ends, "within one launch, by prompt")


def prompt_shifts(speculative: Mapping[str, Work], baseline: Mapping[str, Work]) -> _Floats | None:
    """How far the log ratio moves when prompts are drawn anew; None where fewer than two are in both arms.

    Two arms with the same prompts draw the same ones, so that their shifts go together.
    """
    rows = _paired_work(speculative, baseline)
    if len(rows) < 2 or not np.all(rows.sum(axis=0) > 0):
        return None
    return cluster_shifts(rows, _log_ratios)


def _paired_work(speculative: Mapping[str, Work], baseline: Mapping[str, Work]) -> _Floats:
    # [prompts, 4]: tokens and seconds of the speculative arm, tokens and seconds of the baseline
    prompts = sorted(speculative.keys() & baseline.keys())
    rows = [[w for arm in (speculative, baseline) for w in (arm[p].tokens, arm[p].seconds)] for p in prompts]
    return np.array(rows, dtype=float).reshape(-1, 4)


def _log_ratios(sums: _Floats) -> _Floats:
    # sums [n, 4], as `_paired_work` -> [n]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(sums[:, 0] * sums[:, 3] / (sums[:, 1] * sums[:, 2])))


def mean_of_known(values: Iterable[float | None]) -> float | None:
    """Of those that are not None; None where none is known."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
