"""One reading of a device or of the host, in base units."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """A reading at `time` (time.perf_counter seconds, the clock of the request traces). None: the device does not tell.

    source: "gpu0", "gpu1", …; "gpu0.mig1" for a MIG device, whose "gpu0" then holds what only the whole chip tells
        (power, energy, clocks, temperature); "host" (RSS and CPU of the server's process tree)
    memory_bytes: what the server's processes hold;  device_memory_bytes: what is taken of the device, by whomever
    utilization_percent: share of time in which some kernel ran (NVML), or the tree's CPU use (100 = one core busy)
    memory_utilization_percent: share of time in which device memory was read or written
    power_watts: NVML's figure, on Ampere and later an average over a second;  power_instant_watts: at the moment
    energy_joules: counted by the device since its driver was loaded: only differences mean something
    throttle: why clocks are not higher, as words joined by "+" (specbench.telemetry.throttle); "" for no reason
    sm_activity_percent, tensor_activity_percent, dram_activity_percent, pcie_*_bytes_per_s: GPM, Hopper and later, over
        the time since the reading before
    """

    time: float
    source: str
    memory_bytes: int | None = None
    utilization_percent: float | None = None
    power_watts: float | None = None
    sm_clock_mhz: float | None = None
    device_memory_bytes: int | None = None
    memory_utilization_percent: float | None = None
    power_instant_watts: float | None = None
    energy_joules: float | None = None
    memory_clock_mhz: float | None = None
    temperature_celsius: float | None = None
    throttle: str | None = None
    sm_activity_percent: float | None = None
    tensor_activity_percent: float | None = None
    dram_activity_percent: float | None = None
    pcie_sent_bytes_per_s: float | None = None
    pcie_received_bytes_per_s: float | None = None
