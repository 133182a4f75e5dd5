"""Rules of thumb of the field beside a plan: what each would have said."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.analysis.verdict import WORTHWHILE


@dataclass(frozen=True)
class Thumb:
    """says: ENABLE or DISABLE;  figure: what it goes by here;  agrees: with the plan; None where that is undecided"""

    rule: str
    says: str
    figure: str
    agrees: bool | None


def thumbs(
    draft_acceptance: float, batch: float, utilisation: float, speedup_alone: float, recommendation: str
) -> tuple[Thumb, ...]:
    """draft_acceptance: accepted over drafted;  batch, utilisation: of a replica without speculation at the peak
    speedup_alone: of decoding at batch size 1
    """
    decided = None if recommendation == "NOT ENOUGH EVIDENCE" else recommendation.startswith("ENABLE")
    rules = (
        ("acceptance above 50% pays", draft_acceptance > 0.5, f"{draft_acceptance:.0%} of drafted tokens"),
        ("acceptance above 70% pays", draft_acceptance > 0.7, f"{draft_acceptance:.0%} of drafted tokens"),
        ("it pays up to batch size 8", batch <= 8, f"{batch:.1f} in flight at the peak"),
        ("it pays up to batch size 32", batch <= 32, f"{batch:.1f} in flight at the peak"),
        ("it pays while the GPU is less than half busy", utilisation < 0.5, f"{utilisation:.0%} busy at the peak"),
        (
            "cost falls by the speedup at batch size 1",
            speedup_alone > WORTHWHILE,
            f"{speedup_alone:.2f} times, so {1 - 1 / speedup_alone:.0%} less",
        ),
    )
    return tuple(
        Thumb(rule, "ENABLE" if pays else "DISABLE", figure, None if decided is None else pays == decided)
        for rule, pays, figure in rules
    )
