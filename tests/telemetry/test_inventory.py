"""Which GPUs there are: whole ones, parts of one, and those without memory of their own."""

from __future__ import annotations

import ctypes

import psutil
import pynvml
import pytest
from fake_nvml import NO_PERMISSION, NOT_SUPPORTED, Driver

from specbench.telemetry.inventory import Gpu, list_gpus, silent_gpus
from specbench.telemetry.nvml import open_nvml

GIB = 1 << 30


def test_of_a_gpu_that_is_cut_up_the_largest_part_is_what_a_server_gets(driver: Driver) -> None:
    driver.add(mig_mode=1, memory_used=NO_PERMISSION)
    for number, size in ((0, 18), (1, 35), (3, 18)):
        part = {"instance": number, "memory_used": 0, "memory_total": size * GIB}
        driver.set(0, **{f"mig{number}__{name}": value for name, value in part.items()})
    assert list_gpus() == [Gpu(0, "NVIDIA H200 MIG", 35 * GIB, "580.95.05")]
    assert silent_gpus() == []


def test_a_gpu_without_memory_of_its_own_has_the_hosts(driver: Driver) -> None:
    driver.add(name="NVIDIA GB10", memory_used=NOT_SUPPORTED, mig_mode=NOT_SUPPORTED)
    assert list_gpus() == [Gpu(0, "NVIDIA GB10", psutil.virtual_memory().total, "580.95.05")]


def test_a_gpu_that_may_not_be_asked_is_told_and_not_listed(driver: Driver) -> None:
    driver.add(memory_used=NO_PERMISSION)
    assert list_gpus() == []
    assert silent_gpus() == ["GPU 0: Insufficient Permissions"]


def test_a_driver_that_is_missing_is_no_gpu(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FAKE_NVML")
    assert (list_gpus(), silent_gpus()) == ([], [])


def test_a_question_that_the_driver_is_too_old_for_has_no_answer(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.add()

    class Older(ctypes.CDLL):
        def __getattr__(self, name: str) -> object:
            if name.startswith("nvmlDeviceGetComputeRunningProcesses"):
                raise AttributeError(name)
            return super().__getattr__(name)

    monkeypatch.setattr(pynvml, "nvmlLib", Older(str(driver.library)))
    with open_nvml() as nvml:
        assert nvml is not None
        handle = nvml.ask("nvmlDeviceGetHandleByIndex", 0)
        assert nvml.ask("nvmlDeviceGetComputeRunningProcesses", handle) is None
