"""A real llama.cpp server on CPU, plain and with the target as its own draft model, measured as attached servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from specbench.backends.base import Command
from specbench.backends.environments import engine_python
from specbench.backends.process import ServerProcess, run_server
from specbench.cache import cache_dir
from specbench.demo.fetch import MEMBER, fetch_gguf
from specbench.errors import SpecbenchError

pytestmark = pytest.mark.llama_cpp

GAMMA = 3


@pytest.fixture(scope="session")
def gguf() -> Path:
    """The demo target as it is published."""
    try:
        engine_python("llama.cpp", "cpu")
    except SpecbenchError as absent:
        pytest.skip(str(absent))
    folder = cache_dir() / "demo" / "gguf"
    file = folder / Path(MEMBER).name
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        fetch_gguf(folder)
    return file


@asynccontextmanager
async def llama_cpp(model: Path, folder: Path, *arguments: str) -> AsyncIterator[ServerProcess]:
    (folder / "logs").mkdir(parents=True)
    program = (sys.executable, "-m", "specbench.backends.attach.llama_cpp_server", "--port", "{port}")
    options = ("--model", str(model), "--served-model-name", "demo", "--max-batch-size", "2")
    command = Command((*program, *options, *arguments))
    async with run_server(command, folder / "logs" / "server.log", ready_timeout=300) as server:
        yield server


def cell_of(summary: dict[str, Any], method: str) -> dict[str, Any]:
    [cell] = [cell for cell in summary["cells"] if cell["method"] == method]
    return dict(cell)


async def test_the_target_as_its_own_draft_model_accepts_everything(gguf: Path, tmp_path: Path) -> None:
    prompts = [{"prompt": "The capital of France is"}, {"prompt": "One, two, three,"}, {"prompt": "Roses are red,"}]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, prompts)))
    draft = ("--method", "draft_model", "--drafter", str(gguf), "--gamma", str(GAMMA))
    async with llama_cpp(gguf, tmp_path / "a") as plain, llama_cpp(gguf, tmp_path / "b", *draft) as fast:
        line = (
            *(sys.executable, "-m", "specbench", "sweep", "--backend", "attach", "--url", fast.base_url),
            *("--baseline-url", plain.base_url, "--method", "draft_model", "--gamma", str(GAMMA), "--json"),
            *("--workload", "few.jsonl", "--batch-size", "1", "--requests", "4", "--max-tokens", "17"),
            *("--replicates", "1", "--output", "run"),
        )
        done = await asyncio.to_thread(subprocess.run, line, cwd=tmp_path, capture_output=True, text=True)
        assert fast.exit_code is None  # nobody stops what is not theirs
    assert done.returncode == 0, done.stderr
    assert "llama.cpp" in done.stderr
    summary = json.loads(done.stdout)
    cell = cell_of(summary, "draft_model")
    assert cell["failed_requests"] == cell_of(summary, "none")["failed_requests"] == 0
    assert cell["acceptance_source"] == "requests"
    # 16 tokens after the prefill's, in steps of at most 1 + 3 of which none is refused.
    assert cell["draft_acceptance_rate"] == 1
    assert cell["mean_acceptance_length"] == 1 + GAMMA
    assert cell["equivalence"] == "EXACT"
    assert "compared as text" in cell["equivalence_detail"]
    assert cell["speedup"] > 0
    assert cell["memory_bytes_peak"] > cell_of(summary, "none")["memory_bytes_peak"] > 50e6
    marks = {mark["code"] for mark in cell["marks"]}
    assert "counted_by_usage" in marks
    assert not marks & {"other_traffic", "traffic_unseen", "settings_differ", "acceptance_above_gamma"}
