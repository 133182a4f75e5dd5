"""The stand-in for NVIDIA's driver library (fake_nvml.c), built and told what its GPUs show."""

from __future__ import annotations

import ctypes
import mmap
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

LIBRARY = "libnvidia-ml.so.1"
GPU_IS_LOST, NO_PERMISSION, NOT_SUPPORTED = "!15", "!4", "!3"
H200 = {
    "name": "NVIDIA H200",
    "memory_total": 150_754_820_096,
    "memory_used": 3 << 30,
    "processes": "",
    "utilization": 0,
    "memory_utilization": 0,
    "power": 76_000,
    "power_instant": 75_000,
    "energy": 0,
    "sm_clock": 345,
    "memory_clock": 3_201,
    "temperature": 31,
    "clocks_event": 1,
    "mig_mode": 0,
}
"""An idle one, in NVML's own units (bytes, percent, milliwatts, millijoules, megahertz, degrees, bits)."""


def build(folder: Path) -> Path:
    """Compile the library as `folder`/libnvidia-ml.so.1. Skips the test where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler: the stand-in for NVIDIA's library cannot be built")
    source = Path(__file__).with_name("fake_nvml.c")
    library = folder / LIBRARY
    subprocess.run(
        [compiler, "-std=gnu11", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", library, source, "-lm"],
        check=True,
    )
    return library


class Driver:
    """A machine's GPUs as the library shows them. Keys and values are those of fake_nvml.c; None takes a key away."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.library = library
        self.scenario = folder / "scenario"
        self.scenario.write_bytes(bytes(1 << 16))
        self._keys: dict[str, Any] = {"driver": "580.95.05"}

    def set(self, gpu: int, **keys: Any) -> None:
        """Change what a GPU shows; a double underscore stands for a dot, as in mig0__processes."""
        self._keys |= {f"gpu{gpu}.{name.replace('__', '.')}": value for name, value in keys.items()}
        self._write()

    def add(self, **keys: Any) -> int:
        """One GPU more, an idle H200 but for `keys`; its index."""
        index = self._keys.get("count", 0)
        self._keys["count"] = index + 1
        self.set(index, **(H200 | keys))
        return int(index)

    def allocated(self) -> int:
        """Samples of performance counters that were not given back."""
        return int(ctypes.CDLL(str(self.library)).fakeAllocated())

    def _write(self) -> None:
        text = "".join(f"\n{key}={value}" for key, value in self._keys.items() if value is not None).encode() + b"\n"
        with self.scenario.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
            mapped[: len(text) + 1] = text + b"\0"
