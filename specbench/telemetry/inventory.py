"""Which GPUs this machine has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

AMD_DEVICE = Path("/dev/kfd")

AMD_UNSUPPORTED = (
    "an AMD GPU is here, and AMD's GPUs are not supported yet: their memory, power and activity are not read"
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML numbers and names it; `driver` is the driver's version."""

    index: int
    name: str
    memory_bytes: int
    driver: str


def list_gpus() -> list[Gpu]:
    """The GPUs that answer; none where there is no driver. Raises pynvml.NVMLError where the driver fails."""
    return [found for found in _look() if isinstance(found, Gpu)]


def silent_gpus() -> list[str]:
    """Those that do not answer, each with the driver's reason: fallen off the bus, no permission."""
    return [found for found in _look() if not isinstance(found, Gpu)]


def has_amd_gpu() -> bool:
    """Whether AMD's kernel driver for computing, or its tool, is here."""
    return AMD_DEVICE.exists() or shutil.which("amd-smi") is not None


def _look() -> Iterator[Gpu | str]:
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return
    try:
        driver = str(nvml.nvmlSystemGetDriverVersion())
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                name, memory = str(nvml.nvmlDeviceGetName(handle)), int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
            except nvml.NVMLError as error:
                yield f"GPU {index}: {error}"
            else:
                yield Gpu(index, name, memory, driver)
    finally:
        nvml.nvmlShutdown()
