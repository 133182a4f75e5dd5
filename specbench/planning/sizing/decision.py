"""The verdict on speculation for a fleet, and why."""

from __future__ import annotations

from dataclasses import dataclass

from specbench.planning.sizing.case import Case
from specbench.planning.sizing.money import Saving

SURE = 0.9
"""Probability from which on a thing is taken to be so."""

EXIT_CODES = {"ENABLE": 0, "DISABLE": 3, "NOT ENOUGH EVIDENCE": 4}


@dataclass(frozen=True)
class Decision:
    """recommendation: ENABLE, ENABLE UP TO BATCH b (b being a number), DISABLE or NOT ENOUGH EVIDENCE
    up_to_batch_size: the largest at which the schedule proposes tokens; None where nothing is enabled
    """

    recommendation: str
    up_to_batch_size: int | None
    why: str

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.recommendation.partition(" UP TO")[0]]


def decide(case: Case, found: Saving, has_cost: bool, horizon_months: float) -> Decision:
    """ENABLE where savings within the horizon exceed the work with a probability of `SURE`, DISABLE where they do not
    with the same; rent falls by whole replicas only. has_cost: whether engineering has a price
    """
    _, largest = case.largest_batches
    if case.schedule is None:
        return Decision("DISABLE", None, "At no batch size does any gamma commit more tokens per second than none.")
    goal = f"pays for the work within {horizon_months:g} months" if has_cost else "saves a whole replica"
    odds = f"With a probability of {found.p_pays:.0%} it {goal}."
    if found.p_pays >= SURE:
        limit = min(largest, max(last for _, last, gamma in case.schedule.ranges(largest) if gamma))
        what = "ENABLE" if limit >= largest else f"ENABLE UP TO BATCH {limit}"
        return Decision(what, limit, odds)
    if found.p_pays <= 1 - SURE:
        return Decision("DISABLE", None, f"{_reason(case, found)} {odds}")
    return Decision("NOT ENOUGH EVIDENCE", None, odds)


def _reason(case: Case, found: Saving) -> str:
    if found.replicas.value > 0:
        return "What it saves does not pay for the work."
    if found.replicas.value < 0:
        return "It takes more replicas than plain decoding."
    return "It frees no whole replica, and what frees none saves nothing."
