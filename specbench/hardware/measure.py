"""Rates of the present machine as decoding meets them: reading weights, multiplying matrices, starting small work."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

import psutil
import torch

from specbench.decoder.gpu_check.timing import read_bandwidth, seconds
from specbench.errors import SpecbenchError

_PRECISIONS = {"cpu": {"fp32": torch.float32}, "cuda": {"fp32": torch.float32, "bf16": torch.bfloat16}}
"""CPUs without instructions for bf16 would take minutes over it."""
_LAUNCHES = 200


@dataclass(frozen=True, slots=True)
class MeasuredRates:
    """bandwidth: bytes/s of reading a matrix once, to multiply it with a vector
    flops: of square products, by precision;  launch_seconds: of an operation on one number, in a row of many
    """

    name: str
    memory: int
    bandwidth: float
    flops: dict[str, float]
    launch_seconds: float

    def catalogue_entry(self) -> dict[str, Any]:
        """Of the form of a user's hardware file: {name: fields}."""
        day = datetime.now(timezone.utc).date().isoformat()
        return {
            self.name: {
                "memory_gib": round(self.memory / 2**30, 1),
                "bandwidth_tb_per_s": float(f"{self.bandwidth / 1e12:.3g}"),
                "tflops": {precision: float(f"{rate / 1e12:.3g}") for precision, rate in self.flops.items()},
                "source": f"measured on {day}",
            }
        }

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "entry": self.catalogue_entry()}


def measure_rates(device_name: str = "auto", *, size: int | None = None, repeats: int = 7) -> MeasuredRates:
    """Takes a few seconds, and about 2 GiB on a GPU, a quarter of one on a CPU. Others at work on the machine lower it.

    device_name: cuda, cpu, or auto for a GPU where there is one
    size: rows of the square matrices that are multiplied; the matrix that is read has 16 times as many values
    Raises SpecbenchError where there is no such device.
    """
    cuda = torch.cuda.is_available()
    if device_name not in ("auto", "cpu", "cuda") or (device_name == "cuda" and not cuda):
        raise SpecbenchError(f"no device {device_name!r} that PyTorch can use here. Choose cpu, or cuda on a GPU.")
    device = torch.device("cuda" if cuda and device_name != "cpu" else "cpu")
    rows = size or (8192 if device.type == "cuda" else 2048)
    flops = {
        precision: 2 * rows**3 / seconds(_product(rows, dtype, device), device, repeats=repeats, warm_up=1)
        for precision, dtype in _PRECISIONS[device.type].items()
    }
    number = torch.zeros(1, device=device)

    def launches() -> None:
        for _ in range(_LAUNCHES):
            number.add_(1)

    each = seconds(launches, device, repeats=repeats) / _LAUNCHES
    return MeasuredRates(_name(device), _memory(device), read_bandwidth(device, rows, repeats=repeats), flops, each)


def _product(rows: int, dtype: torch.dtype, device: torch.device) -> Callable[[], torch.Tensor]:
    # Of ones it would be faster than of real numbers: a GPU's clock goes by the power that it takes.
    square = torch.rand(rows, rows, dtype=dtype, device=device) - 0.5
    return lambda: square @ square


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_properties(device).name)
    return f"{torch.get_num_threads()}-thread {platform.processor() or platform.machine()} CPU"


def _memory(device: torch.device) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)
