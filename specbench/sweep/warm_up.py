"""Warm-up until stable: cohorts of the cell's own shapes, until one is no faster than the one before."""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from specbench.replay.records import REFUSED, ReplayRun, RequestTrace

MOST_COHORTS = 6
"""Of which one at least must not be refused whole, and one be no faster than its predecessor."""

FASTER = 0.9
"""A cohort that takes less than this share of the time per token of the one before shows a server still warming up."""


@dataclass(frozen=True, slots=True)
class WarmUp:
    """last: the last cohort's run;  cohorts: how many it took;  settled: whether times stood still at the end"""

    last: ReplayRun
    cohorts: int
    settled: bool


async def warm_up(run_cohort: Callable[[int], Awaitable[ReplayRun]]) -> WarmUp:
    """Run cohort 0, 1, … until two that follow each other agree, at most `MOST_COHORTS`.

    Cohorts are compared as wholes, by the median over requests of seconds per token (first token included): within one,
    steps differ anyway, because prefills come first and batch mates leave. It is the iterating until steady state of
    Georges et al., Statistically Rigorous Java Performance Evaluation (2007), one-sided, since a server that starts up
    gets faster: caches fill, kernels compile, clocks rise. A first request thirty times slower than the second
    (vllm#39790) thus costs a third cohort, and never reaches a measured cell.
    A server that dies ends it early; what to make of failed requests is the caller's to say.
    """
    before: float | None = None
    for cohort in range(MOST_COHORTS):
        run = await run_cohort(cohort)
        if all((trace.error or "").startswith(REFUSED) for trace in run.traces):
            continue  # prompts that are too long for the server, it may be; the next are others
        now = seconds_per_token(run.traces)
        if now is None or (before is not None and now >= FASTER * before):
            return WarmUp(run, cohort + 1, settled=True)
        before = now
    return WarmUp(run, MOST_COHORTS, settled=False)


def seconds_per_token(traces: Sequence[RequestTrace]) -> float | None:
    """Median over requests of their whole time per output token; None where none gave any."""
    rates = [(t.finished - t.scheduled) / t.output_tokens for t in traces if t.error is None and t.output_tokens]
    return statistics.median(rates) if rates else None
