"""Kernels are interpreted here, as Triton itself is (tests/conftest.py). Some platforms have no build of it."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("triton"):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        import specbench.decoder.gpu_check.cases  # noqa: F401
else:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton imports parts of itself when a kernel is launched, and these ask too."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
