"""Guards: what must hold of a measured cell if its figures are to be believed. Each that fails is a mark."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.attached import ATTACHED
from specbench.analysis.marks import Mark
from specbench.replay.records import RequestTrace
from specbench.replay.timeline import ttft
from specbench.store.measurement import Measurement

MOST_OTHER_TOKENS = 0.01
MOST_LENGTH_DIFFERENCE = 0.02
MOST_OTHER_CPU_SHARE = 0.1
MOST_FINISH_DIFFERENCE = 0.05
FASTER_PREFILL = 0.7


def counts_impossible(counts: Iterable[AcceptanceCounts], gamma: int) -> Mark | None:
    """0 ≤ accepted ≤ drafted ≤ γ·steps, and a position is accepted no more often than the one before it.

    gamma: 0 where it is not known
    """
    for c in counts if gamma else ():
        most = gamma * c.steps
        drafted = most if c.drafted is None else c.drafted
        of = f"at most {most}" if c.drafted is None else f"{drafted}"
        orders = (0 <= c.accepted <= drafted <= most, 0 <= (c.drafts or 0) <= c.steps)
        positions = c.by_position or ()
        falling = all(a >= b for a, b in pairwise(positions))
        if not (all(orders) and falling and (not positions or sum(positions) == c.accepted)):
            return Mark(
                "counts_impossible",
                f"Impossible: {c.accepted} tokens accepted of {of} drafted in {c.steps} steps with gamma {gamma}"
                f"{f', by position {list(positions)}' if positions else ''}: the engine's counts are wrong.",
            )
    return None


def counters_reset(measurements: Iterable[Measurement]) -> Mark | None:
    """A counter that goes down was reset, so that differences are of nothing (sglang#29329)."""
    reset = [m.id for m in measurements if m.counters and m.counters.reset]
    if not reset:
        return None
    return Mark(
        "counters_reset",
        f"Void: the engine's counters went down during {', '.join(reset)}: it was restarted or flushed in between.",
    )


def other_traffic(measurements: Iterable[Measurement]) -> Mark | None:
    """Requests and tokens that were nobody's here: other clients, who slowed what was measured.

    Those under way before the first of ours are always. What ended meanwhile is not judged where a request failed,
    which leaves tokens that were made and not sent. One token per request is allowed, as engines differ in whether the
    end of sequence counts; and one request, of a health check.
    """
    for m in measurements:
        if m.counters and m.counters.others_before:
            return Mark(
                "other_traffic",
                f"Void: {m.counters.others_before} requests of others were under way when {m.id} began. Keep other "
                "clients off the server.",
            )
        made, ended = (m.counters.generated_tokens, m.counters.finished_requests) if m.counters else (None, None)
        if made is None or any(t.error is not None for t in m.traces):
            continue
        if ended is not None and ended > len(m.traces) + max(1, MOST_OTHER_TOKENS * len(m.traces)):
            return Mark(
                "other_traffic",
                f"Void: the engine answered {ended:,} requests during {m.id}, of which {len(m.traces):,} were sent "
                "here. Keep other clients off the server.",
            )
        received = sum(t.output_tokens for t in m.traces)
        if made > received * (1 + MOST_OTHER_TOKENS) + len(m.traces):
            return Mark(
                "other_traffic",
                f"Void: the engine made {made:,} tokens during {m.id}, of which {received:,} were sent here. Keep "
                "other clients off the server.",
            )
    return None


def stream_length(traces: Iterable[RequestTrace], steps: int) -> float | None:
    """Acceptance length as the streams show it: (tokens − 1) / steps, since one token of each request is the prefill's.

    A last step that the end of sequence or the token limit cut makes it a little smaller than 1 + accepted / steps.
    """
    tokens = [t.output_tokens for t in traces if t.output_tokens]
    return (sum(tokens) - len(tokens)) / steps if tokens and steps else None


def lengths_disagree(traces: Sequence[RequestTrace], counts: AcceptanceCounts, gamma: int) -> Mark | None:
    """The acceptance that the engine tells against the tokens that came: a cut last step may cost each up to γ tokens.

    Not judged where a request failed. It says nothing where an engine leaves steps to be derived from the tokens.
    """
    told, shown = counts.mean_length(), stream_length(traces, counts.steps)
    if not gamma or told is None or shown is None or any(t.error is not None for t in traces):
        return None
    cut = gamma * len(traces) / counts.steps
    if told * (1 - MOST_LENGTH_DIFFERENCE) - cut <= shown <= told * (1 + MOST_LENGTH_DIFFERENCE):
        return None
    return Mark(
        "lengths_disagree",
        f"The engine tells of {told:.2f} tokens per step, and the streams hold {shown:.2f}: its acceptance is of other "
        "requests, of another rank, or counted otherwise.",
    )


def finish_reasons_differ(pairs: Iterable[tuple[Measurement, Measurement]]) -> Mark | None:
    """Arms that the token limit ends more or less often do different work: longer answers are other answers.

    Request by request over those that only one arm cut off, as in McNemar's test (two standard deviations): sampled
    outputs may differ either way, and do so evenly.
    """
    compared = [
        (ours.finish_reason == "length", theirs.finish_reason == "length")
        for m, partner in pairs
        for ours, theirs in _same_requests(m, partner)
        if ours.error is None and theirs.error is None
    ]
    here, there = (sum(pair == only for pair in compared) for only in ((True, False), (False, True)))
    excess = abs(here - there)
    if excess <= MOST_FINISH_DIFFERENCE * len(compared) or excess <= 2 * math.sqrt(here + there):
        return None
    ours, theirs = (sum(arm) for arm in zip(*compared, strict=True))
    return Mark(
        "finish_reasons_differ",
        f"The token limit ends {ours} of {len(compared)} requests here and {theirs} in the baseline: the arms do not "
        "do the same work.",
    )


def _same_requests(a: Measurement, b: Measurement) -> Iterable[tuple[RequestTrace, RequestTrace]]:
    others = {t.index: t for t in b.traces}
    return ((t, others[t.index]) for t in a.traces if t.index in others)


def repeats_prefill_faster(measurements: Iterable[Measurement]) -> Mark | None:
    """Repeats send the same prompts again: a prefix cache that nobody reports shows in their times to first token.

    So do replicates at an attached server, which are turns at the same one, with the cache of the earlier.
    """
    first: dict[str, float] = {}
    ratios = []
    attached = False
    for m in sorted(measurements, key=lambda m: (m.replicate, m.repeat)):
        reported = m.counters and m.counters.prefix_cache_queries is not None
        times = [v for t in m.traces if t.error is None and (v := ttft(t)) is not None]
        if reported or not times:
            continue
        median = statistics.median(times)
        attached = m.cell.backend == ATTACHED
        server = m.cell.speculation.label if attached else m.launch
        if server in first:
            ratios.append(median / first[server])
        elif m.repeat == 0:
            first[server] = median
    if not ratios or max(ratios) >= FASTER_PREFILL:
        return None
    return Mark(
        "repeats_prefill_faster",
        f"Contaminated: every repeat has its first tokens sooner than the first pass over the same prompts (by "
        f"{1 - max(ratios):.0%} or more): they were served from a cache. "
        + (
            "Switch the server's prefix cache off, or send each prompt once: --repeats 1 --replicates 1."
            if attached
            else "Use --repeats 1 with more --replicates."
        ),
    )


def warm_up_unsettled(measurements: Iterable[Measurement]) -> Mark | None:
    unsettled = [m.id for m in measurements if m.warm_up_settled is False]
    if not unsettled:
        return None
    return Mark(
        "warm_up_unsettled",
        f"The server was still getting faster at the end of the warm-up ({', '.join(unsettled)}): the first requests "
        "may be slower than the others.",
    )


def busy_machine(measurements: Iterable[Measurement]) -> Mark | None:
    """Load from processes that are neither client nor server."""
    loads = [(m.other_cpu_percent, m.cores) for m in measurements if m.other_cpu_percent is not None and m.cores]
    if not any(percent > 100 * MOST_OTHER_CPU_SHARE * cores for percent, cores in loads):
        return None
    return Mark(
        "busy_machine",
        f"Other processes took more than {MOST_OTHER_CPU_SHARE:.0%} of the machine's processors (other_cpu_percent): "
        "times are longer and vary more than on a quiet machine.",
    )


def contaminated(clauses: Iterable[str]) -> Mark | None:
    """A server that keeps of one measurement what makes the next one faster."""
    found = list(dict.fromkeys(clauses))
    return Mark("contaminated", f"Contaminated: {'; '.join(found)}.") if found else None


def lossy(clauses: Iterable[str]) -> Mark | None:
    found = list(dict.fromkeys(clauses))
    if not found:
        return None
    return Mark(
        "lossy",
        f"Not the target's own outputs: {'; '.join(found)}. Speed and acceptance are of something else than "
        "speculative decoding.",
    )
