"""Fixtures for the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Before torch is imported, here and in the servers that tests start: its threads wait for each other by spinning, which
# on a busy machine costs more than they bring.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A deadline is a timed assertion, and this suite may run on a busy machine.
settings.register_profile("specbench", deadline=None)
settings.load_profile("specbench")


@pytest.fixture(scope="session")
def demo_target() -> Path:
    """The real demo target, in the user's own cache: the first run of the suite fetches it, later ones are offline."""
    from specbench import demo

    return demo.demo_target()


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory that this test has for itself."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("SPECBENCH_CACHE", str(cache))
    return cache
