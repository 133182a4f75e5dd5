"""Fixtures for the whole suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

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
