"""GPUs that the server's process tree uses, read through NVML (nvidia-ml-py)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psutil

from specbench.telemetry.gpm import Gpm
from specbench.telemetry.nvml import Nvml, open_nvml
from specbench.telemetry.process_tree import REFRESH, ProcessTree
from specbench.telemetry.sample import Sample
from specbench.telemetry.throttle import words

SLOW = 1.0
"""Seconds between looks at what changes slowly (memory and who holds it, temperature), to spare the server's host."""


@dataclass(slots=True)
class _Device:
    """A whole chip, or a MIG device of one.

    in_use: the server has held memory of it, now or earlier;  memory: fields of a sample as of the last look
    """

    source: str
    handle: Any
    gpm: Gpm
    is_mig: bool = False
    in_use: bool = False
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Chip:
    """devices: the chip itself, or by MIG index the parts that it is cut into;  slow: fields of a sample, as above"""

    source: str
    handle: Any
    devices: dict[int, _Device] = field(default_factory=dict)
    slow: dict[str, Any] = field(default_factory=dict)


class GpuSource:
    """Reads the GPUs that hold memory of the tree; a GPU that was used once is read until the end.

    GPUs and MIG devices that appear meanwhile are found within seconds. Of one that vanishes every figure is None.
    """

    def __init__(self, nvml: Nvml, tree: ProcessTree) -> None:
        self._nvml, self._tree = nvml, tree
        self._chips: dict[int, _Chip] = {}
        self._enumerated = self._looked = float("-inf")

    def read(self, time: float) -> list[Sample]:
        """One sample per GPU in use: `gpu0`, `gpu1`…, by NVML's numbers, which ignore CUDA_VISIBLE_DEVICES.

        A chip that is cut up has one of its own, and one for each MIG device in use: `gpu0.mig1`.
        """
        if time - self._enumerated >= REFRESH:
            self._enumerated = time
            self._enumerate()
        if time - self._looked >= SLOW:
            self._looked = time
            self._look_around()
        samples = []
        for chip in self._chips.values():
            loads = {device.source: self._load(device) for device in chip.devices.values() if device.in_use}
            if loads:
                own = loads.pop(chip.source, {})
                samples.append(Sample(time, chip.source, **own, **chip.slow, **self._state(chip.handle)))
                samples += [Sample(time, source, **load) for source, load in loads.items()]
        return samples

    def close(self) -> None:
        """Give back what NVML keeps for the devices; call before it is shut down."""
        for chip in self._chips.values():
            for device in chip.devices.values():
                device.gpm.close()

    def _enumerate(self) -> None:
        ask = self._nvml.ask
        for index in range(ask("nvmlDeviceGetCount") or 0):
            handle = ask("nvmlDeviceGetHandleByIndex", index)
            if handle is None:
                continue
            chip = self._chips.setdefault(index, _Chip(f"gpu{index}", handle))
            mode = ask("nvmlDeviceGetMigMode", handle)
            if mode is None or not mode[0]:
                if not chip.devices:
                    chip.devices[0] = _Device(chip.source, handle, Gpm(self._nvml, handle))
                continue
            for number in range(ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0):
                mig = ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, number)  # None where nothing has the number
                if mig is not None and number not in chip.devices:
                    gpm = Gpm(self._nvml, handle, ask("nvmlDeviceGetGpuInstanceId", mig))
                    chip.devices[number] = _Device(f"{chip.source}.mig{number}", mig, gpm, is_mig=True)

    def _look_around(self) -> None:
        pids = self._tree.pids()
        alone = sum(len(chip.devices) for chip in self._chips.values()) == 1
        for chip in self._chips.values():
            for device in chip.devices.values():
                self._look(device, pids, alone)
            if any(device.in_use for device in chip.devices.values()):
                ask, constants = self._nvml.ask, self._nvml.nvml
                chip.slow = {
                    "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", chip.handle, constants.NVML_CLOCK_MEM),
                    "temperature_celsius": self._nvml.first(
                        ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
                        *(chip.handle, constants.NVML_TEMPERATURE_GPU),
                    ),
                }

    def _look(self, device: _Device, pids: set[int], alone: bool) -> None:
        """Find out whether the server uses the device, and how much of its memory."""
        processes = self._nvml.first(
            ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"), device.handle
        )
        own = [process for process in processes or () if process.pid in pids]
        # In a container NVML gives the host's process numbers, which mean nothing here: all there are taken for ours.
        if not own and processes and not any(psutil.pid_exists(process.pid) for process in processes):
            own = processes
        # Or it names none at all. A server that computes on GPUs where there is only one uses that one.
        hidden = not processes and alone and self._tree.runs_cuda()
        device.in_use |= bool(own) or hidden
        known = [process.usedGpuMemory for process in own if process.usedGpuMemory is not None]
        told = processes is not None and not hidden and len(known) == len(own)
        taken = self._nvml.ask("nvmlDeviceGetMemoryInfo", device.handle)
        device.memory = {
            "memory_bytes": sum(known) if told else None,
            "device_memory_bytes": None if taken is None else int(taken.used),
        }

    def _load(self, device: _Device) -> dict[str, Any]:
        """What a chip and a MIG device alike tell of themselves."""
        rates = None if device.is_mig else self._nvml.ask("nvmlDeviceGetUtilizationRates", device.handle)
        return {
            **device.memory,
            "utilization_percent": None if rates is None else float(rates.gpu),
            "memory_utilization_percent": None if rates is None else float(rates.memory),
            **device.gpm.read(),
        }

    def _state(self, chip: Any) -> dict[str, Any]:
        """What only the whole chip tells."""
        nvml, ask = self._nvml, self._nvml.ask
        millijoules, instant = nvml.fields(chip, ("NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "NVML_FI_DEV_POWER_INSTANT"))
        milliwatts = ask("nvmlDeviceGetPowerUsage", chip)
        reasons = nvml.first(
            ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), chip
        )
        return {
            "power_watts": None if milliwatts is None else milliwatts / 1000,
            "power_instant_watts": None if instant is None else instant / 1000,
            "energy_joules": None if millijoules is None else millijoules / 1000,
            "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", chip, nvml.nvml.NVML_CLOCK_SM),
            "throttle": None if reasons is None else words(reasons),
        }


@contextmanager
def open_gpus(tree: ProcessTree) -> Iterator[GpuSource | None]:
    """The GPUs of the machine for the length of the context; None where the library or the driver is missing."""
    with open_nvml() as nvml:
        if nvml is None:
            yield None
            return
        source = GpuSource(nvml, tree)
        try:
            yield source
        finally:
            source.close()
