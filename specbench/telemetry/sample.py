"""One reading of a device or of the host, in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A reading at `time` (time.perf_counter seconds, the clock of the request traces).

    source: "gpu0", "gpu1", … or "host" (RSS and CPU of the server's process tree, where there is no GPU)
    utilization_percent: NVML's "some kernel ran", or the tree's CPU use (100 = one core busy)
    """

    time: float
    source: str
    memory_bytes: int | None = None
    utilization_percent: float | None = None
    power_watts: float | None = None
    sm_clock_mhz: float | None = None
