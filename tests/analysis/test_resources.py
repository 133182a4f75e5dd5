"""Telemetry summed up."""

from __future__ import annotations

from specbench.analysis.resources import Resources, resources
from specbench.telemetry.sample import Sample


def test_peaks_are_per_gpu_and_then_summed() -> None:
    found = resources(
        [
            Sample(0.0, "gpu0", 100, 50.0, 200.0),
            Sample(0.1, "gpu0", 300, 70.0, 400.0),
            Sample(0.0, "gpu1", 200, 10.0, 100.0),
            Sample(0.1, "gpu1", 150, 30.0, None),
        ]
    )
    assert found == Resources("gpu", 500, 40.0, 400.0)


def test_host_memory_is_never_added_to_a_gpus() -> None:
    assert resources([Sample(0.0, "host", 900, 100.0), Sample(0.0, "gpu0", 100, 50.0)]).memory_bytes_peak == 100
    assert resources([Sample(0.0, "host", 900, 100.0)]) == Resources("host", 900, 100.0, None)


def test_what_nobody_reported_is_none() -> None:
    assert resources([]) == Resources(None, None, None, None)
    assert resources([Sample(0.0, "gpu0")]) == Resources("gpu", None, None, None)
