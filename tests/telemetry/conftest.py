"""A server's process tree to watch, and a stand-in for NVIDIA's driver."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

sys.path.append(str(Path(__file__).parent))

from fake_nvml import Driver, build

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


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for libnvidia-ml.so.1, compiled."""
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver without a GPU, for the real nvidia-ml-py in this process."""
    import pynvml

    driver = Driver(tmp_path, nvml_library)
    monkeypatch.setenv("FAKE_NVML", str(driver.scenario))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return driver
