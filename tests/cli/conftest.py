"""The `specbench` command as a user runs it: a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def argv() -> Callable[..., list[str]]:
    """The command line of `specbench …` in this environment."""
    return lambda *arguments: [sys.executable, "-m", "specbench", *map(str, arguments)]


@pytest.fixture
def specbench(argv: Callable[..., list[str]], tmp_path: Path) -> Run:
    """Run `specbench …` in an empty directory; 80 columns, no colours."""

    def run(*arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            argv(*arguments),
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1", **env},
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    """Four short prompts; the first asks for a list, which n-gram lookup likes."""
    path = tmp_path / "tiny.jsonl"
    path.write_text(
        '{"id": "list", "messages": [{"role": "user", "content": "Write the numbers from 1 to 30, one a line."}]}\n'
        '{"id": "capital", "messages": [{"role": "user", "content": "What is the capital of France?"}]}\n'
        '{"id": "copy", "messages": [{"role": "user", "content": "Repeat three times: red green blue yellow."}]}\n'
        '{"id": "poem", "prompt": "Roses are red, violets are", "max_tokens": 8}\n'
    )
    return path
