"""Confidence intervals for a ratio of two arms, each named after what it takes as independent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import stats

_Floats = npt.NDArray[np.float64]
Basis = Literal["replicates", "within one launch"]

LEVEL = 0.95
RESAMPLES = 2_000
_SEED = 20_250


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided 95 % interval of a ratio. `basis` is what varies in it: server launches, or prompts in one launch."""

    low: float
    high: float
    basis: Basis


def replicate_interval(log_ratios: Sequence[float]) -> Interval:
    """exp(mean ± t(R-1) · s / √R) over the log ratios of R ≥ 2 paired replicates (Student's t on logarithms)."""
    d = np.asarray(log_ratios, dtype=float)
    margin = float(stats.t.ppf(0.5 + LEVEL / 2, len(d) - 1) * d.std(ddof=1) / math.sqrt(len(d)))
    return Interval(math.exp(d.mean() - margin), math.exp(d.mean() + margin), "replicates")


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
    total = _paired(speculative, baseline).sum(axis=0, keepdims=True)
    return float(_log_ratios(total)[0]) if np.all(total > 0) else None


def prompt_interval(speculative: Mapping[str, Work], baseline: Mapping[str, Work], centre: float) -> Interval | None:
    """Paired cluster bootstrap within one launch: prompts are resampled, jointly in both arms.

    centre: the log ratio of throughput in the steady window, on which the interval is put
    Returns None where fewer than two prompts are in both arms.

    Requests of one prompt (cycled prompts, repeats) are one cluster. It says nothing of how launches differ.
    """
    work = _paired(speculative, baseline)
    prompts, total = len(work), work.sum(axis=0, keepdims=True)
    if prompts < 2 or not np.all(total > 0):
        return None
    # [resamples, prompts] how often each prompt was drawn
    draws = np.random.default_rng(_SEED).multinomial(prompts, np.full(prompts, 1 / prompts), size=RESAMPLES)
    sums = draws @ work
    shifts = _log_ratios(sums[np.all(sums > 0, axis=1)]) - _log_ratios(total)
    low, high = np.quantile(shifts, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    # A skewed bootstrap may leave its own centre out; the interval of a figure must hold the figure.
    return Interval(math.exp(centre + min(low, 0.0)), math.exp(centre + max(high, 0.0)), "within one launch")


def _paired(speculative: Mapping[str, Work], baseline: Mapping[str, Work]) -> _Floats:
    # [prompts, 4]: tokens and seconds of the speculative arm, tokens and seconds of the baseline
    prompts = sorted(speculative.keys() & baseline.keys())
    rows = [[w for arm in (speculative, baseline) for w in (arm[p].tokens, arm[p].seconds)] for p in prompts]
    return np.array(rows, dtype=float).reshape(-1, 4)


def _log_ratios(sums: _Floats) -> _Floats:
    # sums [n, 4], as `_paired` -> [n]
    return np.asarray(np.log(sums[:, 0] * sums[:, 3] / (sums[:, 1] * sums[:, 2])))
