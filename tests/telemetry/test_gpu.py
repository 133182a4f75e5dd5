"""What specbench makes of NVML, through the real nvidia-ml-py over a driver library whose GPUs show known values."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import psutil
import pynvml
import pytest
from fake_nvml import GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED, Driver

from specbench.telemetry import process_tree
from specbench.telemetry.gpu import GpuSource, open_gpus
from specbench.telemetry.process_tree import ProcessTree
from specbench.telemetry.sample import Sample

GIB = 2**30
MINE = os.getpid()
NOT_HERE = 2**22 + 1  # above Linux's largest process number
MINE_10_GIB = f"{MINE}:{10 * GIB}"


@pytest.fixture
def gpus(driver: Driver) -> Iterator[GpuSource]:
    """The GPUs as seen by a server that is this very process."""
    with open_gpus(ProcessTree(MINE)) as source:
        assert source is not None
        yield source
    assert driver.allocated() == 0


def sources(samples: list[Sample]) -> list[str]:
    return [sample.source for sample in samples]


def test_values_are_in_base_units(driver: Driver, gpus: GpuSource):
    driver.add(
        processes=MINE_10_GIB,
        memory_used=12 * GIB,
        utilization=87,
        memory_utilization=54,
        power=412_500,
        power_instant=655_250,
        energy=7_000_123_456,
        sm_clock=1_755,
        memory_clock=3_201,
        temperature=64,
        clocks_event=0,
    )
    assert gpus.read(2.0) == [
        Sample(
            2.0,
            "gpu0",
            memory_bytes=10 * GIB,
            utilization_percent=87.0,
            power_watts=412.5,
            sm_clock_mhz=1_755,
            device_memory_bytes=12 * GIB,
            memory_utilization_percent=54.0,
            power_instant_watts=655.25,
            energy_joules=7_000_123.456,
            memory_clock_mhz=3_201,
            temperature_celsius=64,
            throttle="",
        )
    ]


def test_only_gpus_that_the_server_uses_are_read(driver: Driver, gpus: GpuSource):
    driver.add()
    driver.add(processes=f"1:{5 * GIB}")
    driver.add(processes=MINE_10_GIB)
    driver.add(processes=MINE_10_GIB)
    assert sources(gpus.read(0.0)) == ["gpu2", "gpu3"]


def test_memory_is_the_servers_own_share(driver: Driver, gpus: GpuSource):
    driver.add(processes=f"1:{5 * GIB},{MINE}:{3 * GIB}", memory_used=9 * GIB)
    (sample,) = gpus.read(0.0)
    assert sample.memory_bytes == 3 * GIB
    assert sample.device_memory_bytes == 9 * GIB


def test_memory_of_the_whole_tree_counts(driver: Driver, server: tuple[subprocess.Popen[str], psutil.Process]):
    parent, child = server
    driver.add(processes=f"{parent.pid}:{GIB},{child.pid}:{2 * GIB},1:{5 * GIB}")
    with open_gpus(ProcessTree(parent.pid)) as source:
        assert source is not None
        assert source.read(0.0)[0].memory_bytes == 3 * GIB


def test_in_a_container_processes_that_do_not_exist_here_are_taken_for_the_servers(driver: Driver, gpus: GpuSource):
    driver.add(processes=f"{NOT_HERE}:{4 * GIB},{NOT_HERE + 1}:{GIB}")
    (sample,) = gpus.read(0.0)
    assert sample.memory_bytes == 5 * GIB


@pytest.mark.parametrize("processes", ["", NO_PERMISSION])
def test_where_no_process_is_named_a_server_that_computes_has_the_only_gpu(
    driver: Driver, gpus: GpuSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
):
    driver.add(processes=processes, power=90_000)
    assert gpus.read(0.0) == []
    device = tmp_path / "nvidia-uvm"
    monkeypatch.setattr(process_tree, "CUDA_DEVICE", device)
    with device.open("w"):
        (sample,) = gpus.read(1.0)
        assert (sample.memory_bytes, sample.power_watts) == (None, 90.0)


def test_among_several_gpus_it_is_not_guessed_which_one(
    driver: Driver, gpus: GpuSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    driver.add()
    driver.add()
    device = tmp_path / "nvidia-uvm"
    monkeypatch.setattr(process_tree, "CUDA_DEVICE", device)
    with device.open("w"):
        assert gpus.read(0.0) == []


@pytest.mark.parametrize("error", [NOT_SUPPORTED, NO_PERMISSION, GPU_IS_LOST, None])
@pytest.mark.parametrize(
    ("key", "missing"),
    [
        ("memory_used", {"device_memory_bytes"}),
        ("utilization", {"utilization_percent", "memory_utilization_percent"}),
        ("power", {"power_watts"}),
        ("power_instant", {"power_instant_watts"}),
        ("energy", {"energy_joules"}),
        ("sm_clock", {"sm_clock_mhz"}),
        ("memory_clock", {"memory_clock_mhz"}),
        ("temperature", {"temperature_celsius"}),
        ("clocks_event", {"throttle"}),
        ("mig_mode", set()),
    ],
)
def test_what_a_gpu_does_not_tell_is_none_and_the_rest_is_read(
    driver: Driver, gpus: GpuSource, key: str, missing: set[str], error: str | None
):
    driver.add(processes=MINE_10_GIB, **{key: error})
    (sample,) = gpus.read(0.0)
    of_gpm = {f.name for f in fields(Sample)[-5:]}
    assert {f.name for f in fields(Sample) if getattr(sample, f.name) is None} == missing | of_gpm


def test_memory_that_the_driver_does_not_split_by_process_is_none(driver: Driver, gpus: GpuSource):
    driver.add(processes=f"{MINE}")
    (sample,) = gpus.read(0.0)
    assert sample.memory_bytes is None


def test_a_gpu_that_cannot_be_opened_or_listed_is_skipped(driver: Driver, gpus: GpuSource):
    driver.add(handle=GPU_IS_LOST)
    driver.add(processes=NO_PERMISSION)
    driver.add(processes=MINE_10_GIB)
    assert sources(gpus.read(0.0)) == ["gpu2"]


def test_a_gpu_is_read_to_the_end_once_the_server_used_it(driver: Driver, gpus: GpuSource):
    gpu = driver.add(processes=MINE_10_GIB)
    gpus.read(0.0)
    driver.set(gpu, processes="", power=70_000)
    (sample,) = gpus.read(1.0)
    assert (sample.memory_bytes, sample.power_watts) == (0, 70.0)


def test_of_a_gpu_that_fell_off_the_bus_every_figure_is_none_and_the_others_are_read(driver: Driver, gpus: GpuSource):
    lost = driver.add(processes=MINE_10_GIB)
    driver.add(processes=MINE_10_GIB, temperature=50)
    gpus.read(0.0)
    of_it = ("processes", "memory_used", "utilization", "power", "power_instant", "energy", "sm_clock", "memory_clock")
    driver.set(lost, **dict.fromkeys((*of_it, "temperature", "clocks_event", "handle", "mig_mode"), GPU_IS_LOST))
    nothing, other = gpus.read(6.0)  # late enough for the devices to be counted anew
    assert nothing == Sample(6.0, "gpu0")
    assert other.temperature_celsius == 50


def test_what_changes_slowly_is_asked_once_a_second_and_the_rest_every_time(driver: Driver, gpus: GpuSource):
    gpu = driver.add(processes=MINE_10_GIB, temperature=50, power=100_000)
    gpus.read(0.0)
    driver.set(gpu, temperature=60, power=200_000)
    between, later = gpus.read(0.1)[0], gpus.read(1.0)[0]
    assert (between.temperature_celsius, between.power_watts) == (50, 200)
    assert (later.temperature_celsius, later.power_watts) == (60, 200)


def test_a_gpu_that_appears_meanwhile_is_found(driver: Driver, gpus: GpuSource):
    driver.add(processes=MINE_10_GIB)
    assert sources(gpus.read(0.0)) == ["gpu0"]
    driver.add(processes=MINE_10_GIB)
    assert sources(gpus.read(process_tree.REFRESH)) == ["gpu0", "gpu1"]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (0x0, ""),
        (0x1, "gpu_idle"),
        (0x4, "sw_power_cap"),
        (0x48, "hw_slowdown+hw_thermal_slowdown"),
        (0x80, "hw_power_brake"),
        (0x20, "sw_thermal_slowdown"),
        (0x100004, "sw_power_cap+0x100000"),
    ],
)
def test_why_clocks_are_low_is_said_in_words(driver: Driver, gpus: GpuSource, reasons: int, said: str):
    driver.add(processes=MINE_10_GIB, clocks_event=reasons)
    assert gpus.read(0.0)[0].throttle == said


def test_the_words_are_nvmls_own():
    from specbench.telemetry.throttle import words

    for bit, name in {
        "GpuIdle": "gpu_idle",
        "ApplicationsClocksSetting": "application_clocks",
        "SwPowerCap": "sw_power_cap",
        "HwSlowdown": "hw_slowdown",
        "SyncBoost": "sync_boost",
        "SwThermalSlowdown": "sw_thermal_slowdown",
        "HwThermalSlowdown": "hw_thermal_slowdown",
        "HwPowerBrakeSlowdown": "hw_power_brake",
        "DisplayClockSetting": "display_clocks",
    }.items():
        assert words(getattr(pynvml, f"nvmlClocksEventReason{bit}")) == name


def counters(time: float, sm: float, tensor: float, dram: float, sent: float, received: float) -> dict[str, float]:
    """Running totals of the performance counters, in unit-seconds, by NVML's numbers of the metrics."""
    totals = {"time": time, "2": sm, "5": tensor, "10": dram, "20": sent, "21": received}
    return {f"gpm__{name}": value for name, value in totals.items()}


def test_activity_is_the_mean_since_the_reading_before(driver: Driver, gpus: GpuSource):
    gpu = driver.add(processes=MINE_10_GIB, gpm=1, **counters(100, 0, 0, 0, 0, 0))
    (first,) = gpus.read(0.0)
    assert first.sm_activity_percent is None
    driver.set(gpu, **counters(100.5, 30, 10, 45, 1, 2))  # in half a second
    (second,) = gpus.read(0.5)
    assert (second.sm_activity_percent, second.tensor_activity_percent, second.dram_activity_percent) == (60, 20, 90)
    assert (second.pcie_sent_bytes_per_s, second.pcie_received_bytes_per_s) == (2 * 2**20, 4 * 2**20)
    driver.set(gpu, **counters(101.5, 30, 35, 45, 1, 2))
    (third,) = gpus.read(1.5)
    assert (third.sm_activity_percent, third.tensor_activity_percent) == (0, 25)  # idle is 0, and is known


def test_activity_that_a_chip_does_not_count_is_none_and_the_rest_is_read(driver: Driver, gpus: GpuSource):
    gpu = driver.add(processes=MINE_10_GIB, gpm=1, gpm__time=0, gpm__2=0)
    gpus.read(0.0)
    driver.set(gpu, gpm__time=1, gpm__2=40)
    (sample,) = gpus.read(1.0)
    assert (sample.sm_activity_percent, sample.dram_activity_percent) == (40, None)


def test_a_reading_of_counters_that_fails_leaves_a_gap_and_the_next_spans_it(driver: Driver, gpus: GpuSource):
    gpu = driver.add(processes=MINE_10_GIB, gpm=1, gpm__time=0, gpm__2=0)
    gpus.read(0.0)
    driver.set(gpu, gpm__time=NO_PERMISSION)
    assert gpus.read(1.0)[0].sm_activity_percent is None
    driver.set(gpu, gpm__time=4, gpm__2=100)
    assert gpus.read(2.0)[0].sm_activity_percent == 25


def test_a_mig_device_shows_its_own_load_and_its_chip_the_power_of_the_whole(driver: Driver, gpus: GpuSource):
    driver.add(mig_mode=1, power=300_000, utilization=NOT_SUPPORTED, processes=NO_PERMISSION, gpm=1)
    driver.set(0, mig0__instance=3, mig0__processes=f"1:{GIB}", mig0__memory_used=GIB, mig0__memory_total=8 * GIB)
    mine = {"processes": f"{MINE}:{5 * GIB}", "memory_used": 6 * GIB, "memory_total": 20 * GIB, "instance": 7}
    driver.set(0, **{f"mig2__{key}": value for key, value in mine.items()}, mig2__gpm__time=0, mig2__gpm__10=0)
    gpus.read(0.0)
    driver.set(0, mig2__gpm__time=1, mig2__gpm__10=66)
    chip, part = gpus.read(1.0)
    assert (chip.source, chip.power_watts, chip.memory_bytes, chip.utilization_percent) == ("gpu0", 300, None, None)
    assert part == Sample(1.0, "gpu0.mig2", memory_bytes=5 * GIB, device_memory_bytes=6 * GIB, dram_activity_percent=66)


def test_without_a_driver_or_the_library_there_are_no_gpus(driver: Driver, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.delenv("FAKE_NVML")
        with open_gpus(ProcessTree(MINE)) as source:
            assert source is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with open_gpus(ProcessTree(MINE)) as source:
        assert source is None


def test_the_library_is_found_as_the_drivers_own_is(driver: Driver, nvml_library: Path, tmp_path: Path):
    driver.add()
    driver.add(name="NVIDIA GeForce RTX 5090", memory_total=32 * GIB)
    script = (
        "import json; from dataclasses import asdict; from specbench.telemetry.inventory import list_gpus\n"
        "print(json.dumps([asdict(gpu) for gpu in list_gpus()]))"
    )
    environment = os.environ | {"LD_LIBRARY_PATH": str(nvml_library.parent)}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    first, second = json.loads(run.stdout)
    assert (first["name"], first["driver"]) == ("NVIDIA H200", "580.95.05")
    assert (second["index"], second["memory_bytes"]) == (1, 32 * GIB)
