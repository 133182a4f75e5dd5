"""Times of work on a device, and what its memory can do."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch


def wait(device: torch.device) -> None:
    """Until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(work: Callable[[], object], device: torch.device, *, repeats: int, warm_up: int = 3) -> float:
    """Median time of one call, from an idle device to an idle device."""
    for _ in range(warm_up):
        work()
    times = []
    for _ in range(repeats):
        wait(device)
        begun = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def copy_bandwidth(device: torch.device, size: int) -> float:
    """Bytes per second, read and written, of copying `size` bytes within the device's memory."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds(lambda: target.copy_(source), device, repeats=10)


def read_bandwidth(device: torch.device, columns: int, *, repeats: int) -> float:
    """Bytes per second, at best, of reading a matrix once as decoding reads weights: to multiply it with a vector.

    columns: of the matrix, which has 16 times as many rows
    """
    # Our own decoder reads weights in float32 on a CPU, engines read 16 bits on a GPU.
    dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
    weights = torch.ones(16 * columns, columns, dtype=dtype, device=device)
    vector = torch.ones(columns, dtype=dtype, device=device)
    # A GPU reads a matrix in little more than it takes to start work there: there it is started on the next meanwhile.
    in_a_row = 1 if device.type == "cpu" else 10

    def work() -> None:
        for _ in range(in_a_row):
            torch.mv(weights, vector)

    # What else is at work on a machine only ever takes from it.
    times = [seconds(work, device, repeats=1, warm_up=1) for _ in range(repeats)]
    return in_a_row * weights.nbytes / min(times)
