"""Memory, activity, power and energy of the server over a measurement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from specbench.telemetry.sample import Sample


@dataclass(frozen=True, slots=True)
class Resources:
    """Over the sources sampled. None: nobody reported it.

    source: "gpu" (all GPUs of the server), or "host" (its processes' RSS and CPU, where there is no GPU)
    memory_bytes_peak: sum over sources of each one's highest reading
    *_mean: mean over time and sources, power_watts_mean summed over sources
    joules_per_second: summed over sources, from their energy counters, or the power readings of one that has none;
        None where a source tells neither. This and power_watts_mean are None under MIG, where others may use the chip
    """

    source: Literal["gpu", "host"] | None
    memory_bytes_peak: int | None = None
    utilization_percent_mean: float | None = None
    power_watts_mean: float | None = None
    joules_per_second: float | None = None
    sm_activity_percent_mean: float | None = None
    tensor_activity_percent_mean: float | None = None
    dram_activity_percent_mean: float | None = None
    sm_clock_mhz_mean: float | None = None
    temperature_celsius_peak: float | None = None


def resources(samples: Iterable[Sample]) -> Resources:
    """Sum up the samples of one measurement."""
    by_source: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_source[sample.source].append(sample)
    source: Literal["gpu", "host"] | None = "gpu" if by_source.keys() - {"host"} else "host" if by_source else None
    if source == "gpu":  # host memory is another kind of memory: never added
        by_source.pop("host", None)
    groups = list(by_source.values())

    def mean(figure: Callable[[Sample], float | None]) -> float | None:
        return _mean([_mean([figure(s) for s in group]) for group in groups])

    memory = [[s.memory_bytes for s in group if s.memory_bytes is not None] for group in groups]
    power = [p for group in groups if (p := _mean([s.power_watts for s in group])) is not None]
    shared = any("." in name for name in by_source)
    return Resources(
        source=source,
        memory_bytes_peak=sum(map(max, filter(None, memory))) if any(memory) else None,
        utilization_percent_mean=mean(lambda s: s.utilization_percent),
        power_watts_mean=sum(power) if power and not shared else None,
        joules_per_second=None if shared or not groups else _sum([_joules_per_second(group) for group in groups]),
        sm_activity_percent_mean=mean(lambda s: s.sm_activity_percent),
        tensor_activity_percent_mean=mean(lambda s: s.tensor_activity_percent),
        dram_activity_percent_mean=mean(lambda s: s.dram_activity_percent),
        sm_clock_mhz_mean=mean(lambda s: s.sm_clock_mhz),
        temperature_celsius_peak=max(
            (s.temperature_celsius for group in groups for s in group if s.temperature_celsius is not None),
            default=None,
        ),
    )


def _joules_per_second(samples: Sequence[Sample]) -> float | None:
    """Of one device. Power readings stand in for a counter that is not there, or went back (a GPU that was reset)."""
    counted = [(s.time, s.energy_joules) for s in samples if s.energy_joules is not None]
    if len(counted) > 1 and all(earlier[1] <= later[1] for earlier, later in pairwise(counted)):
        seconds, joules = (last - first for first, last in zip(counted[0], counted[-1], strict=True))
        if seconds > 0 and joules > 0:
            return joules / seconds
    return _mean([s.power_watts for s in samples])


def _sum(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(values) else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
