"""Who used the machine's processors during a measurement: the client, the server, or somebody else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil

from specbench.telemetry.process_tree import ProcessTree


@dataclass
class MachineLoad:
    """Known when the context has ended; None where it cannot be told. 100 is one core kept busy.

    client_percent: this process
    other_percent: everything that is neither this process nor the server's tree, on the cores that this process may use
    cores: how many these are
    """

    client_percent: float | None = None
    other_percent: float | None = None
    cores: int = 1


@contextmanager
def machine_load(server_pid: int | None) -> Iterator[MachineLoad]:
    """Measure the load from other processes while the context is open, from differences of the kernel's own counts.

    Time that a hypervisor took away counts as other. A child of the server that came and went in between is taken for
    other, too. Without a pid the server is elsewhere.
    """
    load, client = MachineLoad(cores=len(_cores())), psutil.Process()
    tree = None if server_pid is None else ProcessTree(server_pid)
    before = time.perf_counter(), _busy(), _used([client]), _used(tree.processes() if tree else [])
    yield load
    seconds = time.perf_counter() - before[0]
    if seconds <= 0:
        return
    busy, own = _busy() - before[1], _used([client]) - before[2]
    server = _used(tree.processes() if tree else []) - before[3]
    load.client_percent = 100 * own / seconds
    # The counts tick a hundred times a second and are not read at one moment.
    load.other_percent = max(0.0, 100 * (busy - own - max(server, 0.0)) / seconds)


def _busy() -> float:
    """Seconds that the cores open to this process have worked, summed."""
    cores = _cores()
    every = psutil.cpu_times(percpu=True)
    return sum(sum(t) - t.idle - getattr(t, "iowait", 0.0) - _guests(t) for i, t in enumerate(every) if i in cores)


def _guests(times: object) -> float:
    """Guests' time, which Linux counts in user and nice as well."""
    return float(getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0))


def _cores() -> set[int]:
    return os.sched_getaffinity(0)


def _used(processes: list[psutil.Process] | tuple[psutil.Process, ...]) -> float:
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total
