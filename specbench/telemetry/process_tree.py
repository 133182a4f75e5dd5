"""The server's processes: the one that was launched and whatever it started."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

REFRESH = 5.0
"""Seconds between walks of the process table, which take milliseconds; engines start their workers once."""


CUDA_DEVICE = Path("/dev/nvidia-uvm")
"""What a process that computes on NVIDIA's GPUs has open, and one that only reads telemetry has not."""


class ProcessTree:
    """The processes below `root_pid`, itself included. A descendant is kept when its parent dies before it."""

    def __init__(self, root_pid: int) -> None:
        self._known: dict[int, psutil.Process] = {}
        self._refreshed = float("-inf")
        try:
            self._known[root_pid] = psutil.Process(root_pid)
        except psutil.NoSuchProcess:
            self._refreshed = float("inf")  # nothing can appear below a process that is gone

    def processes(self) -> tuple[psutil.Process, ...]:
        """Those alive at the last look; reading one may still raise psutil.NoSuchProcess."""
        now = time.monotonic()
        if now - self._refreshed >= REFRESH:
            self._refreshed = now
            self._refresh()
        return tuple(self._known.values())

    def pids(self) -> set[int]:
        return {process.pid for process in self.processes()}

    def runs_cuda(self) -> bool:
        """Whether a process of the tree has the GPUs' memory device open."""
        return any(_has_open(process.pid, CUDA_DEVICE) for process in self.processes())

    def _refresh(self) -> None:
        alive = {pid: process for pid, process in self._known.items() if process.is_running()}
        self._known = dict(alive)
        for process in alive.values():
            try:
                if process.ppid() in alive:
                    continue  # found from its ancestor
                descendants = process.children(recursive=True)
            except psutil.Error:
                continue
            for descendant in descendants:
                # The old object stays where there is one: it remembers the CPU time of the last reading.
                self._known.setdefault(descendant.pid, descendant)


def _has_open(pid: int, path: Path) -> bool:
    try:
        return any(link.readlink() == path for link in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False  # gone, or another user's
