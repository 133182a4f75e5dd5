"""Telemetry beside a measurement: a thread that reads every source ten times a second."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from specbench.telemetry.gpu import open_gpus
from specbench.telemetry.host import HostSource
from specbench.telemetry.process_tree import ProcessTree
from specbench.telemetry.sample import Sample

logger = logging.getLogger(__name__)

INTERVAL = 0.1
"""Seconds between readings."""


class Source(Protocol):
    """Something to read: one sample for each device that there is now, none where there is none."""

    def read(self, time: float) -> list[Sample]: ...


@contextmanager
def sample_server(pid: int, interval: float = INTERVAL) -> Iterator[list[Sample]]:
    """Sample the process tree below `pid`, its GPUs and the host, while the context is open.

    The list grows meanwhile and is complete when the context has ended. A server that dies leaves what was read.
    """
    tree = ProcessTree(pid)
    with open_gpus(tree) as gpus:
        host = HostSource(tree)
        with sampling([host] if gpus is None else [gpus, host], interval) as samples:
            yield samples


@contextmanager
def sampling(sources: Sequence[Source], interval: float = INTERVAL) -> Iterator[list[Sample]]:
    """Read `sources` every `interval` seconds in a thread of its own."""
    samples: list[Sample] = []
    stop = threading.Event()
    thread = threading.Thread(target=_sample, args=(sources, interval, samples, stop), name="telemetry", daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        stop.set()
        thread.join()


def _sample(sources: Sequence[Source], interval: float, samples: list[Sample], stop: threading.Event) -> None:
    due = time.perf_counter()
    while True:
        now = time.perf_counter()
        for source in sources:
            try:
                samples.extend(source.read(now))
            except Exception:
                # Telemetry stands beside the measurement: its failure must not become the measurement's.
                logger.exception("telemetry stopped")
                return
        due = max(due + interval, now)  # a reading that was missed is not made up for
        if stop.wait(due - time.perf_counter()):
            return
