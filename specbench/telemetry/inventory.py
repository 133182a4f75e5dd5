"""Which NVIDIA GPUs this machine has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML numbers and names it; `driver` is the driver's version."""

    index: int
    name: str
    memory_bytes: int
    driver: str


def list_gpus() -> list[Gpu]:
    """All GPUs of the machine; none where there is no driver. Raises pynvml.NVMLError where the driver fails."""
    import pynvml as nvml

    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return []
    try:
        driver = str(nvml.nvmlSystemGetDriverVersion())
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        return [
            Gpu(index, str(nvml.nvmlDeviceGetName(handle)), int(nvml.nvmlDeviceGetMemoryInfo(handle).total), driver)
            for index, handle in enumerate(handles)
        ]
    finally:
        nvml.nvmlShutdown()
