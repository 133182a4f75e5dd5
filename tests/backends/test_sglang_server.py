"""SGLang's adapter against a server that takes SGLang's flags and answers as it does."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from specbench.backends import sglang_counters
from specbench.backends.base import EngineOptions, Launch
from specbench.backends.process import LaunchFailed, run_server
from specbench.backends.sglang import SglangBackend
from specbench.errors import SpecbenchError
from specbench.schedule import Schedule
from specbench.simulated.mark import is_simulated
from specbench.speculation import Speculation

BACKEND = SglangBackend()
CHAIN = ("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4")


@pytest.fixture
def launch(contract: Any, tmp_path: Path) -> Launch:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "config.json").write_text("{}")
    return Launch(
        target=tmp_path / "target",
        target_name="demo",
        speculation=Speculation("eagle3", 3, str(tmp_path / "target")),
        max_batch_size=4,
        dtype="bfloat16",
        device="cuda",
        options=EngineOptions(python=contract.python),
    )


async def test_settings_are_read_back_and_a_lower_limit_is_named(launch: Launch, contract: Any, log: Path) -> None:
    contract.behave(scenario={"max_batch_size": 2, "kv_capacity_tokens": 6400})
    async with run_server(BACKEND.command(launch), log) as server:
        settings = await BACKEND.read_back(server.base_url, launch)
        assert (settings.engine, settings.version, settings.kv_capacity_tokens) == ("SGLang", "0.5.23", 6400)
        assert settings.differences == ("max_running_requests is 2, asked was 4",)
        assert settings.raw["speculative_algorithm"] == "EAGLE3"
        assert not [name for name in settings.raw if "key" in name]
        assert await is_simulated(server.base_url)
        # Had the server another gamma or method, its figures would be those of another arm.
        for other in (Speculation("eagle3", 5, "d"), Speculation("eagle", 3, "d"), Speculation()):
            with pytest.raises(SpecbenchError, match="the server speculates otherwise than asked"):
                await BACKEND.read_back(server.base_url, replace(launch, speculation=other))


async def test_as_deployed_says_what_the_engine_chose(launch: Launch, log: Path) -> None:
    plain = replace(launch, speculation=Speculation(), matched=False)
    async with run_server(BACKEND.command(plain), log) as server:
        (difference,) = (await BACKEND.read_back(server.base_url, plain)).differences
    assert "disable_radix_cache is False" in difference


async def test_a_schedule_reaches_the_server_as_a_file(launch: Launch, log: Path) -> None:
    scheduled = Speculation.scheduled("eagle3", Schedule.parse("1=4+3=0"), str(launch.target))
    launch = replace(launch, speculation=scheduled)
    async with run_server(BACKEND.command(launch), log) as server:
        settings = await BACKEND.read_back(server.base_url, launch)
        async with aiohttp.ClientSession() as session, session.get(f"{server.base_url}/server_info") as response:
            assert (await response.json())["simulated"]["schedule"] == "1=4+3=0"
    assert settings.raw["speculative_adaptive"] is True


async def test_a_busy_cache_is_waited_for_while_requests_run(launch: Launch, contract: Any, log: Path) -> None:
    contract.behave(scenario={"step": {"weights_ms": 20}, "output": {"tokens": 30, "ends": False}})
    async with run_server(BACKEND.command(launch), log) as server, aiohttp.ClientSession(server.base_url) as session:
        body = {"model": "demo", "prompt": "Hello", "max_tokens": 60}
        running = asyncio.create_task(session.post("/v1/completions", json=body))
        await asyncio.sleep(0.3)
        async with session.post("/flush_cache") as response:
            assert response.status == 400
        await sglang_counters.flush(server.base_url)
        assert running.done()
        (await running).release()


WRONG = {
    "another algorithm": (("--speculative-algorithm", "LOOKAHEAD", *CHAIN), "has no speculative algorithm LOOKAHEAD"),
    "steps alone": (("--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3"), "exit code 1"),
    "draft tokens alone": (("--speculative-algorithm", "EAGLE3", "--speculative-num-draft-tokens", "3"), "exit code 1"),
    "an ambiguous flag": (("--cuda-graph-max-bs", "8"), "Several flags of this version of the engine begin with"),
    "a flag that is gone": (("--speculative-ngram-max-match-window-size", "8"), "does not know --speculative-ngram"),
    "sampled drafts of a draft model": (
        ("--speculative-algorithm", "STANDALONE", *CHAIN, "--speculative-use-rejection-sampling"),
        "only supported for EAGLE / EAGLE3 / NEXTN",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_start_that_sglang_refuses_is_explained(launch: Launch, log: Path, name: str) -> None:
    words, sentence = WRONG[name]
    plain = BACKEND.command(replace(launch, speculation=Speculation()))
    with pytest.raises(LaunchFailed, match=sentence):
        async with run_server(replace(plain, argv=(*plain.argv, *words)), log, explain=BACKEND.explain):
            pass


def test_its_child_outlives_a_sigterm_as_an_engine_s_scheduler_may(launch: Launch) -> None:
    argv = [word.replace("{port}", "0") for word in BACKEND.command(launch).argv]
    server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    while not server.stdout.readline().startswith("listening"):
        assert server.poll() is None
    (child,) = psutil.Process(server.pid).children()
    try:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
        assert child.is_running()
    finally:
        child.kill()
