"""A GPU that was held back is said to have been, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from known_run import NGRAM, measurement

from specbench.analysis.throttling import throttled, throttled_shares
from specbench.store.measurement import Measurement
from specbench.telemetry.sample import Sample


def run(reasons: Sequence[str | None]) -> Measurement:
    return measurement(NGRAM, telemetry=[Sample(i / 10, "gpu0", throttle=reason) for i, reason in enumerate(reasons)])


def test_shares_are_of_the_readings_that_tell() -> None:
    readings = ["", "sw_power_cap", "sw_power_cap+hw_slowdown", "gpu_idle", None, "application_clocks"]
    assert throttled_shares([run(readings)]) == {"any": 0.4, "sw_power_cap": 0.4, "hw_slowdown": 0.2}


def test_a_cell_that_its_hardware_slowed_down_is_marked_with_reason_and_share() -> None:
    mark = throttled({"ngram-g4": [run(["hw_thermal_slowdown"] * 3 + [""] * 7)], "none": [run([""] * 10)]})
    assert mark is not None
    assert mark.code == "throttled"
    assert "slowed down by its own hardware: hw_thermal_slowdown in 30% of readings (ngram-g4)" in mark.text
    assert "none" not in mark.text


def test_a_throttled_baseline_is_named_too() -> None:
    mark = throttled({"ngram-g4": [run([""] * 10)], "none": [run(["sw_power_cap"] * 10)]})
    assert mark is not None
    assert "kept below its clocks: sw_power_cap in 100% of readings (none)" in mark.text


@pytest.mark.parametrize(
    "readings",
    [[], [None] * 5, [""] * 5, ["gpu_idle"] * 5, ["application_clocks"] * 5, ["sw_power_cap"] + [""] * 30],
    ids=["no GPU", "not told", "free", "idle", "clocks set for all arms", "a moment"],
)
def test_nothing_is_marked_where_nothing_held_it_back(readings: Sequence[str | None]) -> None:
    assert throttled({"ngram-g4": [run(readings)]}) is None
