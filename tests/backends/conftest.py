"""Marks and fixtures for tests of engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.backends.environments import engine_python
from specbench.errors import SpecbenchError


@pytest.fixture(scope="session")
def vllm_python() -> Path:
    """The interpreter of the installed CPU build of vLLM."""
    try:
        return engine_python("vllm", "cpu")
    except SpecbenchError as absent:
        pytest.skip(str(absent))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log inside a run's directory, as the launcher wants it."""
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "launch.log"
