"""Where speculation stops paying: the batch size at which speedup crosses 1, the acceptance that a step asks for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from scipy.optimize import brentq

Gains = Literal["everywhere", "nowhere", "below", "above"]


class SpeedupPoint(NamedTuple):
    """A speedup at some batch size, with its 95% interval where it has one."""

    value: float
    low: float | None = None
    high: float | None = None

    def excludes_one(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high


@dataclass(frozen=True, slots=True)
class BatchCrossing:
    """The batch size at which speedup crosses 1.

    batch_size: interpolated; None where no two neighbouring batch sizes lie on both sides of 1
    batch_size_low, batch_size_high: where the ends of the speedups' 95% intervals cross; None unless resolved
    resolved:   whether no interval next to the crossing contains 1
    gains:      where speculation gains: at every or no measured batch size, below the crossing, or above it
    text:       the same as a clause
    """

    batch_size: float | None
    batch_size_low: float | None
    batch_size_high: float | None
    resolved: bool
    gains: Gains
    text: str


def batch_crossing(speedups: Mapping[int, SpeedupPoint]) -> BatchCrossing | None:
    """First crossing of 1 over growing batch size, ln speedup interpolated over ln batch; None without a speedup."""
    points = sorted(speedups.items())
    if not points:
        return None
    gaining = points[0][1].value >= 1
    for before, after in pairwise(points):
        if (after[1].value >= 1) != gaining:
            return _between(before, after)
    size, point = points[-1] if gaining else points[0]
    side = f"above the largest measured batch size ({size})" if gaining else f"below the smallest ({size})"
    text = (
        f"break-even is {side}" if point.excludes_one() else f"break-even is not resolved: {_unresolved({size: point})}"
    )
    return BatchCrossing(None, None, None, point.excludes_one(), "everywhere" if gaining else "nowhere", text)


def _between(before: tuple[int, SpeedupPoint], after: tuple[int, SpeedupPoint]) -> BatchCrossing:
    (b0, s0), (b1, s1) = before, after
    gaining, at = s0.value >= 1, _crossing(b0, s0.value, b1, s1.value)
    gains: Gains = "below" if gaining else "above"
    if not (s0.excludes_one() and s1.excludes_one()):
        text = f"break-even, near batch size {at:.1f}, is not resolved: {_unresolved(dict([before, after]))}"
        return BatchCrossing(at, None, None, False, gains, text)
    ends = [(s0.low, s1.low), (s0.high, s1.high)]
    low, high = sorted(_crossing(b0, x, b1, y) for x, y in ends if x is not None and y is not None)
    where = f"{at:.1f} (95% interval {low:.1f}-{high:.1f})"
    text = f"gains up to a batch size of about {where}" if gaining else f"gains from batch size {where} on"
    return BatchCrossing(at, low, high, True, gains, text)


def _crossing(b0: int, s0: float, b1: int, s1: float) -> float:
    """Where a speedup of s0 at b0 and of s1 at b1, on either side of 1, is 1."""
    share = math.log(s0) / (math.log(s0) - math.log(s1))
    return math.exp(math.log(b0) + share * math.log(b1 / b0))


def _unresolved(points: Mapping[int, SpeedupPoint]) -> str:
    unknown = [str(size) for size, point in points.items() if point.low is None or point.high is None]
    wide = [str(size) for size, point in points.items() if not point.excludes_one() and str(size) not in unknown]
    clauses = [(" and ".join(wide), "contains 1"), (" and ".join(unknown), "is not known")]
    return ", ".join(f"the interval at batch size {sizes} {why}" for sizes, why in clauses if sizes)


def expected_length(alpha: float, gamma: int) -> float:
    """Expected tokens per step, (1 - α^(γ+1)) / (1 - α) = 1 + α + … + α^γ (Leviathan et al., 2023, eq. 1)."""
    return math.fsum(alpha**k for k in range(gamma + 1))


def break_even_alpha(step_ratio: float, gamma: int) -> float | None:
    """The acceptance α at which a step that costs `step_ratio` plain decoding steps yields as many tokens.

    Solves E(α, γ) = step_ratio. 0 where a step costs no more than plain decoding; None where it costs more than γ + 1
    steps, which no acceptance repays.
    """
    if step_ratio <= 1:
        return 0.0
    if step_ratio > gamma + 1:
        return None
    return float(brentq(lambda alpha: expected_length(alpha, gamma) - step_ratio, 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a speculative step costs, in plain decoding steps of the same batch size.

    ratio: the whole step;  draft, verify: their parts, None where the engine reports no phases
    basis: "phases" (the engine's own clock) or "tpot" (TPOT × AL from the streams, which counts the prefills of batch
        mates as part of both arms' steps and so draws the ratio towards AL)
    """

    ratio: float
    draft: float | None
    verify: float | None
    basis: Literal["phases", "tpot"]


STEP_PHASES = ("draft", "prepare", "verify", "accept", "host")
"""The parts of a step; `prepare`: making next drafts before the verdict on this one (ssd); `host`: from its results to
the beginning of the next, while the device has nothing to do."""


def phase_step_cost(
    speculative: Mapping[str, float], steps: int, baseline: Mapping[str, float], baseline_steps: int
) -> StepCost | None:
    """From seconds by phase and steps of both arms: those of `STEP_PHASES` per step over the baseline's.

    steps: verification passes of single sequences; for the baseline, tokens after the prefill's. Both arms keep the
    same number of requests in flight, so seconds per sequence and step compare like seconds per engine step.
    """
    drafting, judging = STEP_PHASES[:2], STEP_PHASES[2:]
    plain = _per_step(baseline, baseline_steps, judging)
    if not plain or not steps:
        return None
    return StepCost(
        ratio=_per_step(speculative, steps, STEP_PHASES) / plain,
        draft=_per_step(speculative, steps, drafting) / plain,
        verify=_per_step(speculative, steps, judging) / plain,
        basis="phases",
    )


def tpot_step_cost(tpot: float, mean_acceptance_length: float, baseline_tpot: float) -> StepCost:
    """From the streams alone: a step takes TPOT × AL, and plain decoding's AL is 1."""
    return StepCost(tpot * mean_acceptance_length / baseline_tpot, None, None, "tpot")


def _per_step(seconds: Mapping[str, float], steps: int, phases: Iterable[str]) -> float:
    return sum(seconds.get(phase, 0.0) for phase in phases) / steps if steps else 0.0
