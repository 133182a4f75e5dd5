"""What competes with the client for cores has less of them: real processes, and what the kernel says of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from specbench.backends.priority import lower, session_nice


@pytest.fixture
def server() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as process:
        yield process
        process.kill()


def test_a_server_has_a_lower_priority_than_we(server: subprocess.Popen[bytes]) -> None:
    lower(server.pid, 5)
    assert psutil.Process(server.pid).nice() == psutil.Process().nice() + 5


def test_so_has_its_session(server: subprocess.Popen[bytes]) -> None:
    group = Path(f"/proc/{server.pid}/autogroup")
    if not group.exists() or not group.read_text():
        pytest.skip("this kernel has no autogroups, or they are off")
    lower(server.pid, 5)
    assert session_nice(server.pid) == min(19, session_nice("self") + 5)


def test_one_that_has_ended_is_told(server: subprocess.Popen[bytes]) -> None:
    server.kill()
    server.wait()
    with pytest.raises((psutil.NoSuchProcess, ProcessLookupError)):
        lower(server.pid, 5)
