"""Which GPUs this machine has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from specbench.telemetry.nvml import Nvml

AMD_DEVICE = Path("/dev/kfd")

AMD_UNSUPPORTED = (
    "an AMD GPU is here, and AMD's GPUs are not supported yet: their memory, power and activity are not read"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML numbers and names it; `driver` is the driver's version.

    Of one that is cut up (MIG) the largest part; of one that shares the host's memory, all of that.
    """

    index: int
    name: str
    memory_bytes: int
    driver: str


def list_gpus() -> list[Gpu]:
    """The GPUs that answer; none where there is no driver, or where it fails."""
    return [found for found in _look() if isinstance(found, Gpu)]


def silent_gpus() -> list[str]:
    """What does not answer, each with the driver's reason: fallen off the bus, no permission, a driver half updated."""
    return [found for found in _look() if not isinstance(found, Gpu)]


def has_amd_gpu() -> bool:
    """Whether AMD's kernel driver for computing, or its tool, is here."""
    return AMD_DEVICE.exists() or shutil.which("amd-smi") is not None


def _look() -> Iterator[Gpu | str]:
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return
    except nvml.NVMLError as error:
        yield f"the NVIDIA driver: {error}"
        return
    try:
        yield from _gpus(nvml)
    except nvml.NVMLError as error:
        yield f"the NVIDIA driver: {error}"
    finally:
        nvml.nvmlShutdown()


def _gpus(nvml: Any) -> Iterator[Gpu | str]:
    driver = str(nvml.nvmlSystemGetDriverVersion())
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            name, parts = str(nvml.nvmlDeviceGetName(handle)), _mig_memory(Nvml(nvml), handle)
            found = Gpu(index, f"{name} MIG", max(parts), driver) if parts else None
            found = found or Gpu(index, name, _memory(nvml, handle), driver)
        except nvml.NVMLError as error:
            yield f"GPU {index}: {error}"
        else:
            yield found


def _memory(nvml: Any, handle: Any) -> int:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError_NotSupported:  # GB10 and Jetson have none of their own
        return int(psutil.virtual_memory().total)


def _mig_memory(nvml: Nvml, handle: Any) -> list[int]:
    """Bytes of each part that the GPU is cut into; empty where it is whole."""
    mode = nvml.ask("nvmlDeviceGetMigMode", handle)
    count = nvml.ask("nvmlDeviceGetMaxMigDeviceCount", handle) if mode is not None and mode[0] else None
    parts = (nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number) for number in range(count or 0))
    memory = (nvml.ask("nvmlDeviceGetMemoryInfo", part) for part in parts if part is not None)
    return [int(one.total) for one in memory if one is not None]
