"""Marks and fixtures for tests of engines."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from specbench.backends.environments import engine_python
from specbench.errors import SpecbenchError
from specbench.simulated.truth import Truth, read_truth

SERVERS = Path(__file__).parents[1] / "contract_servers"

sys.path.append(str(Path(__file__).parent))  # so that `contract_sweep` can be imported


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


@dataclass(frozen=True)
class Contract:
    """An environment with the contract servers in it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "env" / "bin" / "python"

    def behave(self, **behaviour: Any) -> None:
        """What servers that start from now on do (tests/contract_servers/README.md)."""
        wanted = {"truth": str(self.folder / "truth"), **behaviour}
        (self.folder / "behaviour.yaml").write_text(yaml.safe_dump(wanted))

    def nothing_is_left(self) -> bool:
        """No process that the contract servers started, and no container. What was killed may take a moment to go."""
        mine = [p for p in psutil.process_iter(["environ"]) if str(self.folder) in str(p.info["environ"] or {})]
        _, alive = psutil.wait_procs(mine, timeout=5)
        containers = self.folder / "containers"
        return not alive and not (containers.exists() and list(containers.iterdir()))

    def truths(self) -> dict[str, Truth]:
        """What really happened, by method; of several starts with the same one the last."""
        logs = sorted((self.folder / "truth").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
        return {path.name.partition("-g")[0]: read_truth(path) for path in logs}


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Contract:
    """Executables that are called as engines' are; `docker` among them is the first on the path."""
    contract = Contract(tmp_path / "contract")
    contract.python.parent.mkdir(parents=True)
    contract.python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    contract.python.chmod(0o755)
    for executable in SERVERS.iterdir():
        if executable.is_file() and not executable.suffix:
            (contract.python.parent / executable.name).symlink_to(executable)
    contract.behave()
    monkeypatch.setenv("SPECBENCH_CONTRACT", str(contract.folder / "behaviour.yaml"))
    monkeypatch.setenv("PATH", f"{contract.python.parent}{os.pathsep}{os.environ['PATH']}")
    return contract
