"""GPUs that the server's process tree uses, read through NVML (nvidia-ml-py)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil

from specbench.telemetry.process_tree import ProcessTree
from specbench.telemetry.sample import Sample

logger = logging.getLogger(__name__)


class GpuSource:
    """Reads the GPUs that hold memory of the tree; a GPU that was used once is read until the end.

    memory_bytes is the tree's own share. What a GPU does not tell (MIG, missing permission) is None.
    """

    def __init__(self, nvml: Any, tree: ProcessTree) -> None:
        self._nvml = nvml
        self._tree = tree
        self._used: set[int] = set()
        count = self._ask(nvml.nvmlDeviceGetCount) or 0
        handles = {index: self._ask(nvml.nvmlDeviceGetHandleByIndex, index) for index in range(count)}
        self._handles = {index: handle for index, handle in handles.items() if handle is not None}

    def read(self, time: float) -> list[Sample]:
        """One sample per GPU in use: `gpu0`, `gpu1`…, by NVML's numbers, which ignore CUDA_VISIBLE_DEVICES."""
        pids = self._tree.pids()
        return [
            sample
            for index, handle in self._handles.items()
            if (sample := self._read_gpu(time, index, handle, pids)) is not None
        ]

    def _read_gpu(self, time: float, index: int, handle: Any, pids: set[int]) -> Sample | None:
        nvml, ask = self._nvml, self._ask
        processes = ask(nvml.nvmlDeviceGetComputeRunningProcesses, handle)
        own = [process for process in processes or () if process.pid in pids]
        # In a container NVML gives the host's process numbers, which mean nothing here: all there are taken for ours.
        if not own and processes and not any(psutil.pid_exists(process.pid) for process in processes):
            own = processes
        if own:
            self._used.add(index)
        if index not in self._used:
            return None
        known = [process.usedGpuMemory for process in own if process.usedGpuMemory is not None]
        rates = ask(nvml.nvmlDeviceGetUtilizationRates, handle)
        milliwatts = ask(nvml.nvmlDeviceGetPowerUsage, handle)
        return Sample(
            time,
            f"gpu{index}",
            memory_bytes=None if processes is None or len(known) < len(own) else sum(known),
            utilization_percent=None if rates is None else float(rates.gpu),
            power_watts=None if milliwatts is None else milliwatts / 1000,
            sm_clock_mhz=ask(nvml.nvmlDeviceGetClockInfo, handle, nvml.NVML_CLOCK_SM),
        )

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """NVML's answer; None where it refuses: not supported here, no permission, the GPU is lost."""
        try:
            return question(*arguments)
        except self._nvml.NVMLError:
            return None


@contextmanager
def open_gpus(tree: ProcessTree) -> Iterator[GpuSource | None]:
    """NVML for the length of the context; None where the library or the driver is missing."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        yield None
        return
    except pynvml.NVMLError as error:
        logger.debug("no NVML: %s", error)
        yield None
        return
    try:
        yield GpuSource(pynvml, tree)
    finally:
        pynvml.nvmlShutdown()
