"""Memory and CPU of the server's process tree: what there is to see where there is no GPU."""

from __future__ import annotations

import psutil

from specbench.telemetry.process_tree import ProcessTree
from specbench.telemetry.sample import Sample


class HostSource:
    """Reads the resident memory and the CPU use of a tree, marked `host`.

    Pages that processes share count once for each. CPU use is since the last reading: 100 is one core kept busy.
    """

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        self.read(0.0)  # CPU use is a difference, so the first reading says nothing

    def read(self, time: float) -> list[Sample]:
        """One sample, or none when no process of the tree is left."""
        readings = [reading for process in self._tree.processes() if (reading := _read(process)) is not None]
        if not readings:
            return []
        memory, cpu = zip(*readings, strict=True)
        return [Sample(time, "host", memory_bytes=sum(memory), utilization_percent=sum(cpu))]


def _read(process: psutil.Process) -> tuple[int, float] | None:
    try:
        return process.memory_info().rss, process.cpu_percent()
    except psutil.Error:
        return None
