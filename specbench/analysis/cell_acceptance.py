"""A cell's acceptance from every source that tells of it, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.acceptance import (
    PooledAcceptance,
    by_category,
    from_requests,
    longest_draft,
    relative_difference,
    up_to_the_end,
)
from specbench.analysis.acceptance_along import (
    acceptance_histogram,
    by_context_length,
    by_output_position,
    suspended_share,
)
from specbench.analysis.acceptance_interval import acceptance_intervals
from specbench.analysis.arm import Arm
from specbench.analysis.guards import stream_length


@dataclass(frozen=True, slots=True)
class CellAcceptance:
    """A speculative cell's acceptance, by source. All None for the baseline.

    gamma: as the cell says, else the longest draft that was seen; 0 where nobody knows
    shown: what the report shows, degenerate requests left out where the engine tells requests apart
    every: all requests, degenerate and failed ones too, to be held against `counters` and speedup
    streamed: the acceptance length of all requests by the tokens that came
    intervals: ends of the intervals of `shown`, by column name;  requests: how many there are in `every`
    along: acceptance lengths along output and context, by column name
    suspended: share of steps in which a rule let nothing be drafted
    """

    gamma: int
    shown: PooledAcceptance | None
    every: PooledAcceptance | None
    counters: PooledAcceptance | None
    categories: Mapping[str, PooledAcceptance]
    source: str | None
    streamed: float | None = None
    intervals: Mapping[str, float] = field(default_factory=dict)
    requests: int = 0
    along: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    suspended: float | None = None

    @classmethod
    def of(cls, arm: Arm) -> CellAcceptance:
        gamma = arm.cell.speculation.gamma or longest_draft(arm.traces)
        sound = [up_to_the_end(trace) for trace in arm.sound_traces()]
        if arm.cell.speculation.is_plain:
            return cls(gamma, None, None, None, {}, None)
        every, counters = from_requests(arm.traces, gamma), arm.counters()
        told = every or counters
        streamed = stream_length(arm.traces, told.counts.steps) if told else None
        if every is not None:
            shown, categories = from_requests(sound, gamma), by_category(sound, gamma)
            intervals = acceptance_intervals(sound)
            along = {
                "acceptance_by_output_position": by_output_position(sound),
                "acceptance_by_context_length": by_context_length(sound),
            }
            return cls(
                gamma,
                shown,
                every,
                counters,
                categories,
                "requests",
                streamed,
                intervals,
                len(arm.traces),
                along,
                suspended_share(sound),
            )
        return cls(gamma, counters, counters, counters, {}, "counters" if counters else None, streamed)

    def difference(self) -> float | None:
        """`relative_difference` of what both tell, None where one of them tells nothing."""
        if self.source != "requests" or self.every is None or self.counters is None:
            return None
        return relative_difference(self.every.counts, self.counters.counts, self.requests)

    def is_compared_whole(self) -> bool:
        """Whether requests and counters both tell steps, drafted and accepted tokens as the engine counted them."""
        return all(told is not None and told.counts.drafted is not None for told in (self.every, self.counters))

    def figures(self) -> dict[str, Any]:
        difference = self.difference() if self.is_compared_whole() else None
        figures: dict[str, Any] = {
            "acceptance_source": self.source,
            "counter_mean_acceptance_length": self.counters.counts.mean_length() if self.counters else None,
            "counter_difference_percent": None if difference is None else difference * 100,
            "stream_mean_acceptance_length": self.streamed,
            "acceptance_by_category": {n: a.counts.mean_length() for n, a in self.categories.items()} or None,
        }
        if self.shown is None:
            return figures
        counts: AcceptanceCounts = self.shown.counts
        return figures | {
            "mean_acceptance_length": counts.mean_length(),
            "mean_acceptance_length_per_draft": counts.mean_length_per_draft(),
            "mean_acceptance_length_per_request": self.shown.mean_length_per_request,
            "draft_acceptance_rate": counts.draft_rate(),
            "alpha": self.shown.alpha(),
            "position_acceptance": counts.position_acceptance(),
            "conditional_acceptance": self.shown.conditional,
            "acceptance_histogram": acceptance_histogram(counts),
            **{name: lengths or None for name, lengths in self.along.items()},
            "suspended_share": self.suspended,
            **self.intervals,
        }
