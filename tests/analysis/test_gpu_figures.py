"""What a run on GPUs shows of them, from readings known in advance."""

from __future__ import annotations

from pathlib import Path

import pytest
from known_run import NGRAM, measurement, store

from specbench.analysis.summary import summarize
from specbench.telemetry.sample import Sample


def reading(time: float, source: str, watts: float, **figures: float | str) -> Sample:
    return Sample(time, source, energy_joules=5e6 + watts * time, power_watts=70.0, **figures)  # type: ignore[arg-type]


def test_energy_activity_and_throttling_end_up_in_the_cells_row(tmp_path: Path) -> None:
    # Two GPUs at 600 W and 300 W by their counters; the second one's clocks are capped in every other reading.
    hot = [
        reading(t / 10, "gpu0", 600, sm_activity_percent=40.0, dram_activity_percent=90.0, throttle="")
        for t in range(10)
    ]
    capped = [
        reading(t / 10, "gpu1", 300, sm_activity_percent=20.0, sm_clock_mhz=1_500, throttle="sw_power_cap" * (t % 2))
        for t in range(10)
    ]
    idle = [reading(t / 10, "gpu0", 300, throttle="gpu_idle", temperature_celsius=40) for t in range(10)]
    runs = [measurement(telemetry=idle), measurement(NGRAM, accepted=3, telemetry=[*hot, *capped])]
    plain, ngram = summarize(store(tmp_path / "run", runs), runs).cells
    assert plain.joules_per_output_token == pytest.approx(300 * runs[0].finished / (8 * 41))
    assert ngram.joules_per_output_token == pytest.approx(900 * runs[1].finished / (8 * 41))
    assert (ngram.sm_activity_percent_mean, ngram.dram_activity_percent_mean) == (30, 90)
    assert (ngram.tensor_activity_percent_mean, ngram.sm_clock_mhz_mean) == (None, 1_500)
    assert (plain.throttled_percent, ngram.throttled_percent) == (0, 25)
    assert (plain.temperature_celsius_peak, ngram.temperature_celsius_peak) == (40, None)
    assert [mark.code for mark in plain.marks] == []
    (mark,) = [mark for mark in ngram.marks if mark.code == "throttled"]
    assert "sw_power_cap in 25% of readings (ngram-g4)" in mark.text


def test_a_throttled_baseline_is_marked_in_its_own_row_and_in_those_held_against_it(tmp_path: Path) -> None:
    hot = [reading(t / 10, "gpu0", 600, throttle="hw_thermal_slowdown") for t in range(10)]
    runs = [measurement(telemetry=hot), measurement(NGRAM, accepted=3)]
    for cell in summarize(store(tmp_path / "run", runs), runs).cells:
        (mark,) = [mark for mark in cell.marks if mark.code == "throttled"]
        assert "hw_thermal_slowdown in 100% of readings (none)" in mark.text


def test_a_run_on_no_gpu_tells_none_of_it(tmp_path: Path) -> None:
    runs = [measurement(telemetry=[Sample(0.0, "host", 3_000, 70.0)])]
    (cell,) = summarize(store(tmp_path / "run", runs), runs).cells
    assert (cell.joules_per_output_token, cell.throttled_percent, cell.sm_activity_percent_mean) == (None, None, None)
