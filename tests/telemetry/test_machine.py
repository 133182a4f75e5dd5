"""Who used the processors: the client, the server's processes, or others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from specbench.telemetry import machine
from specbench.telemetry.machine import machine_load

SPIN = "import time\nprint('spinning', flush=True)\nwhile True: pass"
IDLE = "import time\nprint('idle', flush=True)\ntime.sleep(60)"


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has printed its first line."""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()


def own_seconds() -> float:
    times = os.times()
    return times.user + times.system


def test_the_clients_own_time_is_what_the_kernel_gave_it() -> None:
    begun, used = time.perf_counter(), own_seconds()
    with machine_load(os.getpid()) as load:
        while own_seconds() - used < 0.3:
            pass
    wall = time.perf_counter() - begun
    assert load.client_percent is not None
    assert 100 * 0.25 / wall <= load.client_percent <= 110
    assert load.cores == len(os.sched_getaffinity(0))


def test_a_busy_process_counts_as_other() -> None:
    with running(SPIN), running(IDLE) as server, machine_load(server.pid) as theirs:
        time.sleep(0.6)
    assert theirs.other_percent is not None
    assert theirs.other_percent > 10


def test_what_client_and_server_used_is_not_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """In two seconds the cores worked 3 s, of which the client took .5 and the server 1.5: 1 s is other's, 50 %."""
    clock, busy, used = iter((10.0, 12.0)), iter((100.0, 103.0)), iter((1.0, 20.0, 1.5, 21.5))
    monkeypatch.setattr(machine.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(machine, "_busy", lambda: next(busy))
    monkeypatch.setattr(machine, "_used", lambda _: next(used))
    with machine_load(os.getpid()) as load:
        pass
    assert (load.client_percent, load.other_percent) == (25, 50)


def test_a_server_that_is_gone_leaves_the_rest_to_tell() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with machine_load(process.pid) as load:
        time.sleep(0.05)
    assert load.client_percent is not None
    assert load.other_percent is not None
