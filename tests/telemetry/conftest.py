"""A server's process tree to watch: a parent and a child that hold memory until they are told to stop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

PARENT = """
import subprocess, sys
SLEEP = "import time; print('asleep', flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """The parent, and the child that it started; both have done their imports, so their memory stands nearly still."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        yield parent, child
        parent.kill()
        if child.is_running():
            child.kill()
