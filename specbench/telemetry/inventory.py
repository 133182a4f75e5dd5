"""Which NVIDIA GPUs this machine has."""

from __future__ import annotations

from dataclasses import dataclass

import pynvml


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML numbers and names it; `driver` is the driver's version."""

    index: int
    name: str
    memory_bytes: int
    driver: str


def list_gpus() -> list[Gpu]:
    """All GPUs of the machine. Raises pynvml.NVMLError where there is no driver, or it fails."""
    pynvml.nvmlInit()
    try:
        driver = str(pynvml.nvmlSystemGetDriverVersion())
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return [
            Gpu(index, str(pynvml.nvmlDeviceGetName(handle)), int(pynvml.nvmlDeviceGetMemoryInfo(handle).total), driver)
            for index, handle in enumerate(handles)
        ]
    finally:
        pynvml.nvmlShutdown()
