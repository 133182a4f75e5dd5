from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from specbench.telemetry.gpu import open_gpus
from specbench.telemetry.process_tree import ProcessTree
from specbench.telemetry.sample import Sample

GIB = 2**30
MINE = os.getpid()
NOT_HERE = 2**22 + 1  # above Linux's largest process number


class NVMLError(Exception):
    pass


@dataclass
class FakeGpu:
    """`refuses` names questions that this GPU answers with an NVMLError."""

    processes: dict[int, int | None] = field(default_factory=dict)
    utilization: int = 0
    milliwatts: int = 0
    sm_clock: int = 0
    refuses: set[str] = field(default_factory=set)


class FakeNvml:
    """The part of pynvml that specbench calls."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1

    def __init__(self, *gpus: FakeGpu, driver: bool = True) -> None:
        self.gpus = gpus
        self.driver = driver
        self.running = False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own name, as below
        if not self.driver:
            raise NVMLError("NVML Shared Library Not Found")
        self.running = True

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.running = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:  # noqa: N802
        return self._answer(self.gpus[index], "handle", self.gpus[index])

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> Any:  # noqa: N802
        processes = [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in gpu.processes.items()]
        return self._answer(gpu, "processes", processes)

    def nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu) -> Any:  # noqa: N802
        return self._answer(gpu, "utilization", SimpleNamespace(gpu=gpu.utilization, memory=0))

    def nvmlDeviceGetPowerUsage(self, gpu: FakeGpu) -> Any:  # noqa: N802
        return self._answer(gpu, "power", gpu.milliwatts)

    def nvmlDeviceGetClockInfo(self, gpu: FakeGpu, clock: int) -> Any:  # noqa: N802
        assert clock == self.NVML_CLOCK_SM
        return self._answer(gpu, "clock", gpu.sm_clock)

    @staticmethod
    def _answer(gpu: FakeGpu, name: str, value: Any) -> Any:
        if name in gpu.refuses:
            raise NVMLError(name)
        return value


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read the given GPUs once, as seen by a server that is this very process."""

    def read(*gpus: FakeGpu) -> list[Sample]:
        nvml = FakeNvml(*gpus)
        monkeypatch.setitem(sys.modules, "pynvml", nvml)
        with open_gpus(ProcessTree(MINE)) as source:
            assert source is not None
            assert nvml.running
            samples = source.read(2.0)
        assert not nvml.running
        return samples

    return read


BUSY = FakeGpu(processes={MINE: 10 * GIB}, utilization=87, milliwatts=412_500, sm_clock=1_755)


def test_values_are_in_base_units(read: Any):
    assert read(BUSY) == [Sample(2.0, "gpu0", 10 * GIB, 87.0, 412.5, 1_755)]


def test_only_gpus_that_the_server_uses_are_read(read: Any):
    others = FakeGpu(processes={1: 5 * GIB})
    samples = read(FakeGpu(), others, BUSY)
    assert [sample.source for sample in samples] == ["gpu2"]


def test_memory_is_the_servers_own_share(read: Any):
    (sample,) = read(FakeGpu(processes={1: 5 * GIB, MINE: 3 * GIB}))
    assert sample.memory_bytes == 3 * GIB


def test_in_a_container_processes_that_do_not_exist_here_are_taken_for_the_servers(read: Any):
    (sample,) = read(FakeGpu(processes={NOT_HERE: 4 * GIB, NOT_HERE + 1: GIB}))
    assert sample.memory_bytes == 5 * GIB


@pytest.mark.parametrize(
    ("refused", "missing"),
    [("utilization", "utilization_percent"), ("power", "power_watts"), ("clock", "sm_clock_mhz")],
)
def test_what_a_gpu_does_not_tell_is_none_and_the_rest_is_read(read: Any, refused: str, missing: str):
    (sample,) = read(FakeGpu(BUSY.processes, 87, 412_500, 1_755, refuses={refused}))
    told = {"utilization_percent": 87.0, "power_watts": 412.5, "sm_clock_mhz": 1_755, "memory_bytes": 10 * GIB}
    assert {name: getattr(sample, name) for name in told} == {**told, missing: None}


def test_memory_that_the_driver_does_not_split_by_process_is_none(read: Any):
    (sample,) = read(FakeGpu(processes={MINE: None}))
    assert sample.memory_bytes is None


def test_a_gpu_that_cannot_be_opened_or_listed_is_skipped(read: Any):
    samples = read(FakeGpu(refuses={"handle"}), FakeGpu(refuses={"processes"}), BUSY)
    assert [sample.source for sample in samples] == ["gpu2"]


def test_a_gpu_is_read_to_the_end_once_the_server_used_it(monkeypatch: pytest.MonkeyPatch):
    gpu = FakeGpu(processes={MINE: GIB}, milliwatts=70_000)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(gpu))
    with open_gpus(ProcessTree(MINE)) as source:
        assert source is not None
        source.read(0.0)
        gpu.processes = {}
        assert source.read(1.0) == [Sample(1.0, "gpu0", 0, 0.0, 70.0, 0)]
        gpu.refuses = {"processes", "utilization", "power", "clock"}  # the GPU has fallen off the bus
        assert source.read(2.0) == [Sample(2.0, "gpu0")]


def test_without_a_driver_or_the_library_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch):
    for absent in (FakeNvml(driver=False), None):
        monkeypatch.setitem(sys.modules, "pynvml", absent)
        with open_gpus(ProcessTree(MINE)) as source:
            assert source is None
