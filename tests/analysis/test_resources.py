"""Telemetry summed up."""

from __future__ import annotations

import pytest

from specbench.analysis.resources import Resources, resources
from specbench.telemetry.sample import Sample


def gpu(time: float, source: str = "gpu0", **figures: float | str | None) -> Sample:
    return Sample(time, source, **figures)  # type: ignore[arg-type]


def test_peaks_are_per_gpu_and_then_summed() -> None:
    found = resources(
        [
            gpu(0.0, memory_bytes=100, utilization_percent=50.0, power_watts=200.0, temperature_celsius=60),
            gpu(0.1, memory_bytes=300, utilization_percent=70.0, power_watts=400.0, temperature_celsius=70),
            gpu(0.0, "gpu1", memory_bytes=200, utilization_percent=10.0, power_watts=100.0, sm_activity_percent=20.0),
            gpu(0.1, "gpu1", memory_bytes=150, utilization_percent=30.0, sm_activity_percent=40.0),
        ]
    )
    assert found == Resources(
        "gpu",
        memory_bytes_peak=500,
        utilization_percent_mean=40.0,
        power_watts_mean=400.0,
        joules_per_second=400.0,
        sm_activity_percent_mean=30.0,
        temperature_celsius_peak=70,
    )


def test_host_memory_is_never_added_to_a_gpus() -> None:
    assert resources([Sample(0.0, "host", 900, 100.0), Sample(0.0, "gpu0", 100, 50.0)]).memory_bytes_peak == 100
    assert resources([Sample(0.0, "host", 900, 100.0)]) == Resources("host", 900, 100.0)


def test_what_nobody_reported_is_none() -> None:
    assert resources([]) == Resources(None)
    assert resources([Sample(0.0, "gpu0")]) == Resources("gpu")


def test_energy_is_of_the_counters_whatever_the_readings_of_power_say() -> None:
    counted = [gpu(t, energy_joules=1e6 + 650 * t, power_watts=100.0) for t in (0.0, 0.7, 2.0)]
    assert resources(counted).joules_per_second == pytest.approx(650)
    beside = [gpu(t, "gpu1", power_watts=300.0) for t in (0.0, 2.0)]  # which has no counter
    assert resources([*counted, *beside]).joules_per_second == pytest.approx(950)


def test_a_counter_that_went_back_gives_way_to_the_readings_of_power() -> None:
    reset = [gpu(t, energy_joules=e, power_watts=200.0) for t, e in ((0.0, 9e6), (1.0, 5.0), (2.0, 600.0))]
    assert resources(reset).joules_per_second == 200


def test_energy_is_not_told_where_a_gpu_tells_none_or_others_may_share_the_chip() -> None:
    told = gpu(0.0, power_watts=200.0)
    assert resources([told, gpu(0.0, "gpu1", memory_bytes=1)]).joules_per_second is None
    shared = resources([told, gpu(0.0, "gpu0.mig1", memory_bytes=5, dram_activity_percent=50.0)])
    assert (shared.joules_per_second, shared.power_watts_mean) == (None, None)
    assert (shared.memory_bytes_peak, shared.dram_activity_percent_mean) == (5, 50)
