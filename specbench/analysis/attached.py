"""What has to be said of figures from servers that specbench did not start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from specbench.analysis.marks import Mark
from specbench.analysis.speedup import OverReplicates
from specbench.analysis.statistics import Interval
from specbench.replay.records import BUSY
from specbench.store.measurement import Measurement

ATTACHED = "attach"


def by_turns(over_replicates: OverReplicates) -> OverReplicates:
    """The interval over replicates where these are turns at the same two servers: all within one launch."""

    def interval(log_ratios: Sequence[float]) -> Interval | None:
        found = over_replicates(log_ratios)
        return None if found is None else replace(found, basis="within one launch, by turns")

    return interval


def attached_marks(measurements: Sequence[Measurement]) -> Iterable[Mark]:
    """measurements: those of one cell that did not fail; nothing to say of servers that were started for them"""
    taken = [m for m in measurements if m.cell.backend == ATTACHED]
    found = (_refused(taken), _traffic_unseen(taken), _counted_by_usage(taken))
    return [mark for mark in found if mark is not None]


def _refused(measurements: Sequence[Measurement]) -> Mark | None:
    """A refused request is not sent again: trying until it passes would hide the wait."""
    traces = [t for m in measurements for t in m.traces]
    refused = sum((t.error or "").startswith(BUSY) for t in traces)
    if not refused:
        return None
    return Mark(
        "rate_limited",
        f"The server turned {refused} of {len(traces)} requests away (429 or 503), so that the batch size was not kept "
        "in flight. Use a smaller one, or a key with a higher limit.",
    )


def _traffic_unseen(measurements: Sequence[Measurement]) -> Mark | None:
    blind = [m.id for m in measurements if m.counters is None or m.counters.generated_tokens is None]
    if not blind:
        return None
    return Mark(
        "traffic_unseen",
        "Whether others used the server meanwhile is not known: it shows no counters of what it made.",
    )


def _counted_by_usage(measurements: Sequence[Measurement]) -> Mark | None:
    traces = [t for m in measurements for t in m.traces if t.error is None and t.output_tokens]
    if all(t.token_ids is not None for t in traces):
        return None
    return Mark(
        "counted_by_usage",
        "Tokens are counted by the server's own usage, since it sends no token ids: exact in sum as far as it is "
        "honest; where it tells usage at the end alone, times between tokens are estimates.",
    )
