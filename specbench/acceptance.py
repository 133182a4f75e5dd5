"""Acceptance of drafted tokens: the counts an engine reports, and the rates that follow from them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AcceptanceCounts:
    """What verification did with the drafts, summed over steps.

    steps:    verification passes, one per sequence and step
    drafted:  tokens proposed; at most gamma * steps; None if the engine does not say
    accepted: proposed tokens kept, bonus tokens not counted
    drafts:   steps that had a draft (fewer than `steps` where a drafter finds nothing); None if the engine does not say
    by_position: accepted at draft position k (0-based), length gamma; None if the engine does not say
    """

    steps: int
    drafted: int | None
    accepted: int
    drafts: int | None = None
    by_position: tuple[int, ...] | None = None

    def mean_length(self) -> float | None:
        """Tokens committed per step, bonus included: 1 + accepted / steps (Leviathan et al., 2023, eq. 1)."""
        return 1 + self.accepted / self.steps if self.steps else None

    def mean_length_per_draft(self) -> float | None:
        """As `mean_length`, over the steps that had a draft (the denominator of vLLM's counters)."""
        return 1 + self.accepted / self.drafts if self.drafts else None

    def draft_rate(self) -> float | None:
        """Accepted over drafted. Falls with gamma for the same drafter: compare only at equal gamma."""
        return self.accepted / self.drafted if self.drafted else None

    def position_acceptance(self) -> tuple[float, ...] | None:
        """Share of steps in which position k was accepted (unconditional)."""
        if self.by_position is None or not self.steps:
            return None
        return tuple(count / self.steps for count in self.by_position)
