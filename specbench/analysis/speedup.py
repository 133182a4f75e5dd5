"""Speedup of an arm over the baseline: ratio of output throughput, paired by replicate and repeat."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import stdev

import numpy as np
import numpy.typing as npt

from specbench.analysis.degenerate import degeneracy
from specbench.analysis.statistics import Interval, Work, prompt_interval, replicate_interval, work_log_ratio
from specbench.analysis.throughput import Throughput
from specbench.analysis.time_blocks import block_interval, window_series
from specbench.store.measurement import Measurement

Pair = tuple[Measurement, Measurement]
OverReplicates = Callable[[Sequence[float]], Interval | None]
"""From the log ratios of two or more replicates to the interval of their mean."""


@dataclass(frozen=True, slots=True)
class Speedup:
    """How much faster an arm is than the baseline.

    value:     geometric mean over replicates of (speculative ÷ baseline) steady throughput; None without steady windows
    interval:  95 % interval of `value`; None where a single launch has fewer than two prompts in common
    spread:    standard deviation of the replicates' log ratios (s_d); None with fewer than two
    whole_run: the same from whole runs: for cells too short for a steady window, biased by ramp and drain
    without_degenerate: `value` moved by what leaving degenerate requests out of either arm changes in the per-request
        ratio Σ tokens ÷ Σ request seconds. Batch mates of a looping request keep the time they shared with it
    """

    value: float | None
    interval: Interval | None
    spread: float | None
    whole_run: float | None
    without_degenerate: float | None


def pair(speculative: Iterable[Measurement], baseline: Iterable[Measurement]) -> list[Pair]:
    """Measurements of two arms that belong together: the same replicate and repeat, none failed."""
    partners = {(m.replicate, m.repeat): m for m in baseline if m.status == "ok"}
    return [
        (m, partners[m.replicate, m.repeat])
        for m in speculative
        if m.status == "ok" and (m.replicate, m.repeat) in partners
    ]


def speedup(
    pairs: Sequence[Pair], throughputs: Mapping[str, Throughput], over_replicates: OverReplicates = replicate_interval
) -> Speedup:
    """The speedup of some pairs, given every measurement's throughput by id.

    With two replicates or more the interval clusters on them. Else, within the one launch, on blocks of time where
    the steady windows are long enough for that, and on prompts where they are not.
    """
    steady = replicate_log_ratios(pairs, throughputs)
    whole = _by_replicate([(p, throughputs[p[0].id].whole_run, throughputs[p[1].id].whole_run) for p in pairs])
    whole_run = math.exp(_mean(whole)) if whole else None
    if not steady:
        return Speedup(None, None, None, whole_run, None)
    centre = _mean(steady)
    everything = (work(s for s, _ in pairs), work(b for _, b in pairs))
    without_degenerate = _without_degenerate(pairs, everything, centre)
    if len(steady) > 1:
        return Speedup(math.exp(centre), over_replicates(steady), stdev(steady), whole_run, without_degenerate)
    series = (_series((s for s, _ in pairs), throughputs), _series((b for _, b in pairs), throughputs))
    interval = block_interval(*series, centre) or prompt_interval(*everything, centre)
    return Speedup(math.exp(centre), interval, None, whole_run, without_degenerate)


def replicate_log_ratios(pairs: Iterable[Pair], throughputs: Mapping[str, Throughput]) -> list[float]:
    """Log ratio of steady throughput of each replicate, mean over its repeats."""
    return _by_replicate([(p, throughputs[p[0].id].steady, throughputs[p[1].id].steady) for p in pairs])


def work(measurements: Iterable[Measurement], leave_out: frozenset[str] = frozenset()) -> dict[str, Work]:
    """Tokens and seconds by prompt, over the requests that did not fail."""
    sums: dict[str, Work] = defaultdict(Work)
    for measurement in measurements:
        for t in measurement.traces:
            if t.error is None and t.prompt_id not in leave_out:
                sums[t.prompt_id] += Work(t.output_tokens, t.finished - t.scheduled)
    return dict(sums)


def _without_degenerate(
    pairs: Sequence[Pair], everything: tuple[dict[str, Work], dict[str, Work]], centre: float
) -> float | None:
    # A prompt that is degenerate in one arm is left out of both, or the two arms would do different work.
    bad = frozenset(t.prompt_id for p in pairs for m in p for t in m.traces if degeneracy(t))
    with_them = work_log_ratio(*everything)
    without = work_log_ratio(work((s for s, _ in pairs), bad), work((b for _, b in pairs), bad))
    return math.exp(centre + without - with_them) if without is not None and with_them is not None else None


def _series(
    measurements: Iterable[Measurement], throughputs: Mapping[str, Throughput]
) -> list[npt.NDArray[np.float64]]:
    """Tokens in each second of the steady windows, one series per measurement."""
    windows = ((m, throughputs[m.id].window) for m in measurements)
    return [window_series(m.traces, window) for m, window in windows if window is not None]


def _by_replicate(figures: Iterable[tuple[Pair, float | None, float | None]]) -> list[float]:
    """Mean log ratio of each replicate, over its repeats."""
    logs: dict[int, list[float]] = defaultdict(list)
    for (measurement, _), speculative, baseline in figures:
        if speculative and baseline:
            logs[measurement.replicate].append(math.log(speculative / baseline))
    return [_mean(values) for values in logs.values()]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
