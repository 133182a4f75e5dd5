"""Memory, utilization and power of the server over a measurement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from specbench.telemetry.sample import Sample


@dataclass(frozen=True, slots=True)
class Resources:
    """Over the sources sampled. None: nobody reported it.

    source: "gpu" (all GPUs of the server), or "host" (its processes' RSS and CPU, where there is no GPU)
    memory_bytes_peak: sum over sources of each one's highest reading
    utilization_percent_mean: mean over time and sources;  power_watts_mean: mean over time, summed over sources
    """

    source: Literal["gpu", "host"] | None
    memory_bytes_peak: int | None
    utilization_percent_mean: float | None
    power_watts_mean: float | None


def resources(samples: Iterable[Sample]) -> Resources:
    """Sum up the samples of one measurement."""
    by_source: dict[str, list[Sample]] = defaultdict(list)
    for sample in samples:
        by_source[sample.source].append(sample)
    source: Literal["gpu", "host"] | None = "gpu" if by_source.keys() - {"host"} else "host" if by_source else None
    if source == "gpu":  # host memory is another kind of memory: never added
        by_source.pop("host", None)
    memory = [[s.memory_bytes for s in group if s.memory_bytes is not None] for group in by_source.values()]
    utilization = [_mean([s.utilization_percent for s in group]) for group in by_source.values()]
    power = [_mean([s.power_watts for s in group]) for group in by_source.values()]
    return Resources(
        source=source,
        memory_bytes_peak=sum(map(max, filter(None, memory))) if any(memory) else None,
        utilization_percent_mean=_mean(utilization),
        power_watts_mean=sum(p for p in power if p is not None) if any(p is not None for p in power) else None,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
