"""A real vLLM on CPU that was started by hand: measured over its key, and a second client is noticed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import psutil
import pytest

from specbench.access import Access
from specbench.backends.base import EngineOptions, Launch
from specbench.backends.process import ServerProcess, run_server
from specbench.backends.vllm import VllmBackend
from specbench.replay.client import StreamingClient
from specbench.replay.request import RequestSpec
from specbench.speculation import Speculation

pytestmark = pytest.mark.vllm

KEY = "sk-by-hand-0123456789"
PROMPTS = ("Repeat: red green blue. Red green blue.", "1 2 3 4 1 2 3 4 1 2 3", "a b c a b c a b")


@pytest.fixture
async def by_hand(vllm_python: Path, demo_target: Path, log: Path) -> AsyncIterator[ServerProcess]:
    """vLLM as users start it: its own defaults, a key, no development mode."""
    launch = Launch(
        target=demo_target,
        target_name="demo",
        speculation=Speculation("ngram", 3),
        max_model_len=256,
        max_batch_size=4,
        options=EngineOptions(python=vllm_python, kv_cache_bytes=512 << 20),
    )
    command = VllmBackend().command(launch)
    env = {name: value for name, value in command.env.items() if name != "VLLM_SERVER_DEV_MODE"}
    async with run_server(replace(command, argv=(*command.argv, "--api-key", KEY), env=env), log) as server:
        yield server


async def sweep(folder: Path, url: str, name: str) -> dict[str, Any]:
    (folder / "few.jsonl").write_text("\n".join(json.dumps({"prompt": prompt}) for prompt in PROMPTS))
    line = (
        *(sys.executable, "-m", "specbench", "sweep", "--backend", "attach", "--url", url, "--api-key-env", "THE_KEY"),
        *("--workload", "few.jsonl", "--batch-size", "1", "--requests", "4", "--max-tokens", "12"),
        *("--method", "ngram", "--replicates", "1", "--save-events", "--output", name, "--json"),
    )
    env = {**os.environ, "THE_KEY": KEY}
    done = await asyncio.to_thread(subprocess.run, line, cwd=folder, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert KEY not in done.stdout + done.stderr
    [cell] = json.loads(done.stdout)["cells"]
    return dict(cell)


async def test_it_is_measured_and_a_second_client_is_noticed(by_hand: ServerProcess, tmp_path: Path) -> None:
    (folder := tmp_path / "runs").mkdir()
    quiet = await sweep(folder, by_hand.base_url, "quiet")
    assert quiet["target"] == "demo"
    assert quiet["gamma"] == 3  # from its counters, which have one for each position
    assert quiet["acceptance_source"] == "requests"
    assert 1 <= quiet["mean_acceptance_length"] <= 4
    assert quiet["tpot_ms_p50"] > 0
    assert quiet["telemetry_source"] == "host"
    assert quiet["memory_bytes_peak"] > 500e6  # of the server's own processes
    marks = {mark["code"] for mark in quiet["marks"]}
    assert not marks & {"other_traffic", "traffic_unseen", "counted_by_usage"}

    async def second_client() -> None:
        """With pauses: on a busy machine a server that never rests may keep what measures it from starting."""
        access = Access({"Authorization": f"Bearer {KEY}"}, (KEY,))
        async with StreamingClient(by_hand.base_url, "demo", access=access) as client:
            for i in count():
                await client.generate(RequestSpec(i, str(i), 16, prompt="Once upon a time"))
                await asyncio.sleep(0.5)

    meddling = asyncio.create_task(second_client())
    crowded = await sweep(folder, by_hand.base_url, "crowded")
    meddling.cancel()
    await asyncio.gather(meddling, return_exceptions=True)
    [mark] = [mark for mark in crowded["marks"] if mark["code"] == "other_traffic"]
    assert mark["text"].startswith("Void: ")
    assert psutil.Process(by_hand.pid).is_running()  # nobody stops what is not theirs
    assert not [path for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
