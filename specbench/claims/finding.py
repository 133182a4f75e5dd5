"""What a check found: a verdict with the working shown, and what would make the claim true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from specbench.claims.figure import Figure

Verdict = Literal["consistent", "inconsistent", "impossible"]

SEVERITY: tuple[Verdict, ...] = ("consistent", "inconsistent", "impossible")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check of a claim.

    about:    what was checked
    verdict:  impossible: a bound of arithmetic, memory, bandwidth or rent is broken; inconsistent: the figures do not
              belong together; consistent: they may; None: nothing was claimed, it only follows
    claimed, computed: in `unit`; claimed is None where nothing was claimed, computed comes from the other inputs
    working:  lines that derive it;  true_if: what would make the claim true, each by itself
    """

    about: str
    unit: str
    verdict: Verdict | None
    claimed: Figure | None
    computed: Figure | None
    working: tuple[str, ...]
    true_if: tuple[str, ...] = ()


def judged(
    about: str,
    unit: str,
    verdict: Verdict,
    claimed: Figure,
    computed: Figure,
    working: tuple[str, ...],
    true_if: tuple[str, ...],
) -> Finding:
    """A finding with its claim; what would make it true is said only where it is not."""
    return Finding(about, unit, verdict, claimed, computed, working, () if verdict == "consistent" else true_if)


def agreement(claimed: Figure, computed: Figure) -> Verdict:
    """Consistent where the two ranges share a value."""
    return "inconsistent" if claimed.below(computed) or computed.below(claimed) else "consistent"


def at_least(claimed: Figure, floor: Figure) -> Verdict:
    """A claim below a floor is impossible, one above it disagrees."""
    return "impossible" if claimed.below(floor) else agreement(claimed, floor)


def at_most(claimed: Figure, bound: Figure) -> Verdict:
    """A claim above a bound is impossible; below it everything may be."""
    return "impossible" if bound.below(claimed) else "consistent"


def off(claimed: Figure, computed: Figure) -> str:
    """`claimed 0.19: 119 times too low`."""
    ratio = claimed.value / computed.value
    if agreement(claimed, computed) == "consistent":
        return f"claimed {claimed}: it agrees"
    far, side = (ratio, "high") if ratio > 1 else (1 / ratio, "low")
    by = f"{far:.0f} times" if far >= 10 else f"{far:.1f} times" if far >= 2 else f"{abs(1 - ratio):.1%}"
    return f"claimed {claimed}: {by} too {side}"
