from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specbench.demo import demo_target, demo_target_path
from specbench.demo import target as module
from specbench.errors import SpecbenchError


@pytest.fixture
def tiny_fetch(tiny_model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published GGUF replaced by one of a few kilobytes; all else is the real thing."""
    monkeypatch.setattr(module, "fetch_gguf", lambda folder: Path(shutil.copy(tiny_model.gguf, folder)))


def _no_fetch(_: Path) -> Path:
    raise AssertionError("must not fetch")


@pytest.mark.usefixtures("tiny_fetch", "own_cache")
def test_the_second_use_needs_no_network_and_says_nothing(monkeypatch):
    said: list[str] = []
    first = demo_target(said.append)
    assert [sentence.split()[0] for sentence in said] == ["Fetching", "Converting", "The"]
    monkeypatch.setattr(module, "fetch_gguf", _no_fetch)
    assert demo_target(said.append) == first == demo_target_path()
    assert len(said) == 3


@pytest.mark.usefixtures("tiny_fetch")
def test_only_the_finished_directory_is_left_in_the_cache(own_cache):
    target = demo_target()
    assert {path.name for path in target.parent.iterdir()} == {target.name, ".lock"}


@pytest.mark.usefixtures("tiny_fetch", "own_cache")
def test_what_a_killed_build_left_behind_is_removed_and_built_anew():
    abandoned = demo_target_path().parent / "building-killed"
    abandoned.mkdir(parents=True)
    (abandoned / "half.gguf").write_bytes(b"half")
    assert demo_target().is_dir()
    assert not abandoned.exists()


@pytest.mark.usefixtures("tiny_fetch", "own_cache")
def test_a_full_disk_is_named_and_leaves_no_half_made_target(monkeypatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(SpecbenchError, match=r"no space left .* SPECBENCH_CACHE"):
            demo_target()
    assert [path.name for path in demo_target_path().parent.iterdir()] == [".lock"]
    assert demo_target().is_dir()


def test_a_cache_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "file"))
    with pytest.raises(SpecbenchError, match=r"cannot write the demo target.*Set SPECBENCH_CACHE"):
        demo_target()


@pytest.mark.usefixtures("own_cache")
def test_a_missing_extra_is_named_before_anything_is_fetched(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == "gguf" else name)
    monkeypatch.setattr(module, "fetch_gguf", _no_fetch)
    with pytest.raises(SpecbenchError, match=r"gguf not installed.*pip install '\.\[reference\]'"):
        demo_target()


def test_two_processes_at_first_use_fetch_once_and_both_get_it(own_cache):
    script = "from specbench.demo import demo_target; print(demo_target(print))"
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(2)
    ]
    outputs = [process.communicate()[0].splitlines() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert {lines[-1] for lines in outputs} == {str(demo_target_path())}
    assert sum(line.startswith("Fetching") for lines in outputs for line in lines) == 1
    assert (demo_target_path() / "model.safetensors").stat().st_size > 200_000_000
    shutil.rmtree(own_cache)
