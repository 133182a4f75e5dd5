"""Traffic in words: `50 req/s, prompt 800±300, output 250±150`, and requests drawn from it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import i0e

from specbench.analysis.cost import SECONDS_PER_MONTH
from specbench.errors import SpecbenchError
from specbench.workloads.traffic import Traffic

EXAMPLE = "50 req/s, prompt 800±300, output 250±150"
FORMS = f'Write it as in "{EXAMPLE}"; "cv 2" and "peak 3x at 14h" may follow'

DAY = 86_400.0

LARGEST_PEAK = 10.0
LONGEST = 10_000_000
"""Tokens of a mean length: beyond any model, and a typo more than that would fill memory."""

MOST_REQUESTS = 50_000_000
"""That are drawn at once: some GB."""

_BLOCK = 1 << 16
_GRID = 60.0
"""Seconds between the points at which a day's rate is looked at; in between it is taken for a straight line."""

_SECONDS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": DAY, "day": DAY}
_NUMBER = r"(\d+(?:\.\d*)?(?:e\d+)?|\.\d+)"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens per request: lognormal of this mean and standard deviation, or all the same where sd is 0."""

    mean: float
    sd: float = 0.0

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int32]:
        """[count], whole and at least 1."""
        if self.sd == 0:
            drawn = np.full(count, self.mean)
        else:
            spread = sqrt(log(1 + (self.sd / self.mean) ** 2))
            drawn = rng.lognormal(log(self.mean) - spread**2 / 2, spread, count)
        whole: NDArray[np.int32] = np.clip(np.rint(drawn), 1, 2**31 - 1).astype(np.int32)
        return whole


@dataclass(frozen=True, slots=True)
class TrafficSpec:
    """Traffic by its figures.

    rate: requests per second, the mean over a day
    cv:   of the gaps between arrivals: their standard deviation over their mean; 1 is Poisson, more is burstier
    peak: the busiest moment's rate over the mean one, 1 for a rate that never changes;  peak_hour: when that is, 0-24
    """

    rate: float
    prompt: Lengths
    output: Lengths
    cv: float = 1.0
    peak: float = 1.0
    peak_hour: float = 14.0

    def rate_at(self, seconds: NDArray[np.float64]) -> NDArray[np.float64]:
        """Requests per second at times since midnight.

        λ(t) ∝ exp(κ cos(2π (t − t_peak) / 24 h)): one peak a day of any height, whose mean over the day is I₀(κ); κ is
        such that e^κ / I₀(κ) is the peak over the mean.
        """
        sharpness = _sharpness(self.peak)
        angle = 2 * np.pi * (seconds / DAY - self.peak_hour / 24)
        shape: NDArray[np.float64] = np.exp(sharpness * (np.cos(angle) - 1)) / i0e(sharpness)
        return self.rate * shape

    def draw(self, rng: np.random.Generator, duration_s: float) -> Traffic:
        """Requests of the first `duration_s` seconds after midnight; may be none where that is short.

        A renewal process with gamma gaps, whose clock runs at the rate of the hour (Cox and Lewis, 1966, on the change
        of time): no gap is cut, so that rate and burstiness are those asked for. Raises SpecbenchError for more than
        MOST_REQUESTS.
        """
        if not self.rate * duration_s <= MOST_REQUESTS:
            raise SpecbenchError(
                f"{self.rate:g} requests per second for {duration_s:,.0f} s are more than can be drawn "
                f"({MOST_REQUESTS:,}). Draw a shorter time: --duration."
            )
        grid = np.linspace(0, duration_s, int(np.ceil(duration_s / _GRID)) + 1 if self.peak > 1 else 2)
        rates = self.rate_at(grid)
        expected = np.concatenate(([0.0], np.cumsum(np.diff(grid) * (rates[1:] + rates[:-1]) / 2)))
        arrival = np.interp(np.concatenate([*self._clock(rng, expected[-1])]), expected, grid)
        return Traffic(
            arrival=arrival - arrival[:1],
            prompt_tokens=self.prompt.draw(rng, len(arrival)),
            output_tokens=self.output.draw(rng, len(arrival)),
        )

    def _clock(self, rng: np.random.Generator, end: float) -> Iterator[NDArray[np.float64]]:
        """Arrivals up to `end` on a clock on which one request comes per unit of time."""
        now = 0.0
        while now < end:
            times = now + np.cumsum(rng.gamma(1 / self.cv**2, self.cv**2, _BLOCK))
            now = float(times[-1])
            yield times[times < end]


def parse_traffic_spec(
    text: str, *, tokens_per_month: float | None = None, peak_factor: float | None = None
) -> TrafficSpec:
    """Read traffic in words. Raises SpecbenchError naming the part that is wrong.

    tokens_per_month: of output, in the place of a rate: λ = tokens ÷ (730 h · E[output tokens])
    peak_factor: what that rate is multiplied by, so that the fleet is sized for the busy hours; 1 where it is None
    """
    found: dict[str, tuple[float, ...]] = {}
    for part in text.split(","):
        name, values = _part(part.strip())
        if name in found:
            raise SpecbenchError(f'traffic: "{part.strip()}" gives the {name} a second time. {FORMS}.')
        found[name] = values
    if missing := [name for name in ("prompt", "output") if name not in found]:
        raise SpecbenchError(f'traffic: "{text}" says no {missing[0]} length. {FORMS}.')
    prompt, output = Lengths(*found["prompt"]), Lengths(*found["output"])
    if ("rate" in found) == (tokens_per_month is not None):
        told = "two rates, its own and that of the tokens per month" if "rate" in found else "no rate"
        raise SpecbenchError(f'traffic: "{text}" says {told}. {FORMS}, and --tokens-per-month takes a rate\'s place.')
    if tokens_per_month is None:
        if peak_factor is not None:
            raise SpecbenchError(f'traffic: a peak factor is for tokens per month; a rate has "peak 3x". {FORMS}.')
        (rate,) = found["rate"]
    else:
        rate = tokens_per_month / (SECONDS_PER_MONTH * output.mean) * (peak_factor or 1.0)
    peak, hour = found.get("peak", (1.0, 14.0))
    return TrafficSpec(rate, prompt, output, cv=found.get("cv", (1.0,))[0], peak=peak, peak_hour=hour)


def _part(part: str) -> tuple[str, tuple[float, ...]]:
    for name, (pattern, read) in _PARTS.items():
        if match := re.fullmatch(pattern, part, re.IGNORECASE):
            values = read(match)
            if problem := _problem(name, values):
                raise SpecbenchError(f'traffic: "{part}": {problem}. {FORMS}.')
            return name, values
    raise SpecbenchError(f'traffic: "{part}" is no rate, no length, no cv and no peak. {FORMS}.')


def _problem(name: str, values: tuple[float, ...]) -> str | None:
    match name, values:
        case "rate", (rate,) if not 0 < rate <= 1e6:
            return "the rate must be above 0 and at most a million requests per second"
        case (("prompt" | "output"), (mean, sd)) if not (1 <= mean <= LONGEST and sd <= 10 * mean):
            return f"a length must be from 1 to {LONGEST} tokens, and what it spreads by at most ten times that"
        case "cv", (cv,) if not 0.05 <= cv <= 20:
            return "the coefficient of variation must be from 0.05 (even) to 20 (bursts)"
        case "peak", (peak, hour) if not (1 <= peak <= LARGEST_PEAK and hour <= 24):
            return f"the peak must be from 1x to {LARGEST_PEAK:g}x the mean rate, at an hour from 0h to 24h"
    return None


def _rate(match: re.Match[str]) -> tuple[float, ...]:
    return (float(match[1]) / _SECONDS[(match[2] or "s").lower()],)


def _lengths(match: re.Match[str]) -> tuple[float, ...]:
    return float(match[1]), float(match[2] or 0)


def _cv(match: re.Match[str]) -> tuple[float, ...]:
    return (float(match[1]),)


def _peak(match: re.Match[str]) -> tuple[float, ...]:
    return float(match[1]), float(match[2] or 14)


_TOKENS = rf"\s+{_NUMBER}(?:\s*(?:±|\+/?-)\s*{_NUMBER})?(?:\s*tok(?:en)?s?)?"

_PARTS: dict[str, tuple[str, Callable[[re.Match[str]], tuple[float, ...]]]] = {
    "rate": (rf"{_NUMBER}\s*(?:r(?:eq(?:uest)?s?)?\s*/\s*({'|'.join(_SECONDS)})|rps)", _rate),
    "prompt": (rf"(?:prompt|input)s?{_TOKENS}", _lengths),
    "output": (rf"outputs?{_TOKENS}", _lengths),
    "cv": (rf"cv\s+{_NUMBER}", _cv),
    "peak": (rf"peak\s+{_NUMBER}\s*[x×](?:\s+at\s+{_NUMBER}\s*h)?", _peak),
}
"""Parts of traffic in words: how each is written, and what it says."""


def _sharpness(peak: float) -> float:
    """κ of `TrafficSpec.rate_at`."""
    return 0.0 if peak == 1 else float(brentq(lambda k: 1 / i0e(k) - peak, 0, 1000))
