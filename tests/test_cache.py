from __future__ import annotations

from pathlib import Path

import pytest

from specbench.cache import cache_dir
from specbench.errors import SpecbenchError


def test_the_cache_is_where_the_variables_say_nearest_first(monkeypatch, tmp_path):
    monkeypatch.delenv("SPECBENCH_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == Path.home() / ".cache" / "specbench"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "specbench"
    monkeypatch.setenv("SPECBENCH_CACHE", "here")
    assert cache_dir() == Path.cwd() / "here"


def test_a_cache_in_the_home_of_nobody_is_a_sentence(monkeypatch):
    monkeypatch.setenv("SPECBENCH_CACHE", "~nouser/cache")
    with pytest.raises(SpecbenchError, match="there is no home directory ~nouser"):
        cache_dir()
