"""TensorRT-LLM's adapter against a server that takes its flags and its file, and answers as it does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
import yaml

from specbench.acceptance import AcceptanceCounts
from specbench.analysis.acceptance import from_requests
from specbench.backends.base import Command, Container, EngineOptions, Launch
from specbench.backends.log_notes import log_differences
from specbench.backends.lossy import lossy_log
from specbench.backends.process import LaunchFailed, ServerProcess, run_server
from specbench.backends.tensorrt_llm import TensorrtLlmBackend
from specbench.replay.client import StreamingClient
from specbench.replay.closed_loop import run_closed_loop
from specbench.replay.dialect import TENSORRT_LLM
from specbench.replay.request import RequestSpec
from specbench.schedule import Schedule
from specbench.simulated.truth import Truth, counts
from specbench.speculation import BASELINE, DRAFTERLESS, Speculation

BACKEND = TensorrtLlmBackend()
OLD, NEW = "1.2.1", "1.3.0"
SCENARIO = {
    "drafting": {"acceptance": {"conditional": [0.8, 0.6, 0.5]}},
    "step": {"weights_ms": 2},
    "prefill": {"fixed_ms": 1},
    "output": {"tokens": 30, "sigma": 0.3},
    "kv_capacity_tokens": 6400,
}
Make = Callable[..., Launch]


@pytest.fixture
def make(contract: Any, tmp_path: Path) -> Make:
    """A launch of a method, after telling the server which version it is: `make("eagle3", version="1.3.0")`."""
    for model in ("target", "head"):
        (tmp_path / model).mkdir()

    def made(
        method: str = "none",
        gamma: int = 3,
        *,
        version: str = OLD,
        schedule: str | None = None,
        container: bool = False,
        arguments: tuple[str, ...] = (),
        behaviour: dict[str, Any] | None = None,
        **changes: Any,
    ) -> Launch:
        contract.behave(**{"scenario": SCENARIO, "version": version, **(behaviour or {})})
        options = EngineOptions(python=contract.python, engine_version=version, engine_args=arguments)
        if container:
            options = replace(
                options, python=None, container=Container(f"nvcr.io/nvidia/tensorrt-llm/release:{version}")
            )
        drafter = None if method in DRAFTERLESS else str(tmp_path / "head")
        speculation = BASELINE if method == "none" else Speculation(method, gamma, drafter, schedule=schedule)
        launch = Launch(tmp_path / "target", "target", speculation, 8, 512, "bfloat16", "cuda", options=options)
        return replace(launch, **changes)

    return made


def start(launch: Launch, log: Path, command: Command | None = None) -> Any:
    return run_server(command or BACKEND.command(launch), log, explain=BACKEND.explain, ready_timeout=30)


async def refusal(launch: Launch, log: Path, command: Command | None = None) -> str:
    with pytest.raises(LaunchFailed) as failed:
        async with start(launch, log, command):
            pass
    return str(failed.value)


def with_settings(command: Command, **changes: Any) -> Command:
    """The command with settings in its file that specbench would not write."""
    ((name, content),) = command.files.items()
    settings = yaml.safe_load(content)
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = settings
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return replace(command, files={name: yaml.safe_dump(settings)})


async def replay(server: ServerProcess, count: int = 16, batch_size: int = 4) -> Any:
    requests = [RequestSpec(i, f"p{i}", 60, prompt=f"Question {i}?", seed=i) for i in range(count)]
    async with StreamingClient(server.base_url, "target", dialect=TENSORRT_LLM) as client:
        return await run_closed_loop(client, requests, batch_size)


def tree(server: ServerProcess) -> list[psutil.Process]:
    root = psutil.Process(server.pid)
    return [root, *root.children(recursive=True)]


def measured(truth: Truth) -> list[Any]:
    """Requests of `replay`: read-back's has no seed."""
    return [request for request in truth.requests if request.seed is not None]


@pytest.mark.parametrize(
    ("version", "method"),
    [
        *((OLD, method) for method in ("none", "ngram", "draft_model", "mtp")),
        *((NEW, method) for method in ("suffix", "eagle3")),
    ],
)
async def test_every_method_starts_and_its_acceptance_is_the_truth(
    make: Make, log: Path, contract: Any, version: str, method: str
) -> None:
    launch = make(method, version=version, methods=(method,))
    async with start(launch, log) as server:
        settings = await BACKEND.read_back(server.base_url, launch)
        assert (settings.engine, settings.version) == ("TensorRT-LLM", version)
        assert settings.kv_capacity_tokens == 6400
        assert settings.differences == ()
        assert log_differences(server.said()) == ()
        assert lossy_log(server.said(), temperature=1.0) == ()
        async with BACKEND.probe(server.base_url) as probe:
            run = await replay(server)
        left = tree(server)
    assert len(left) == 2
    assert not psutil.wait_procs(left, timeout=5)[1]
    assert probe.counters is not None
    assert probe.counters.kv_usage_peak is not None
    assert 0 < probe.counters.kv_usage_peak < 0.2
    pooled = from_requests(run.traces, 3)
    if method == "none":
        assert probe.counters.acceptance is None
        assert pooled is None or pooled.counts.mean_length() == 1
        return
    want = counts(measured(contract.truths()[method]), 3)
    assert probe.counters.acceptance == replace(want, by_position=None)
    assert pooled is not None
    beyond_one = sum(s.emitted - 1 for r in measured(contract.truths()[method]) for s in r.steps)
    assert pooled.counts == AcceptanceCounts(steps=want.steps, drafted=None, accepted=beyond_one)


@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_schedule_runs_as_it_was_meant(make: Make, log: Path, contract: Any, version: str) -> None:
    schedule = Schedule.parse("1=4+3=2+5=0")
    async with start(make("ngram", 4, version=version, schedule=str(schedule)), log) as server:
        for batch_size in (1, 4, 8):
            await replay(server, count=2 * batch_size, batch_size=batch_size)
    steps = [step for request in contract.truths()["ngram"].requests for step in request.steps]
    assert {step.batch for step in steps} >= {1, 4, 8}
    assert all(step.drafted == schedule.at(step.batch) for step in steps)


async def test_in_a_container_it_sees_its_file_and_its_models_and_is_removed(
    make: Make, log: Path, contract: Any
) -> None:
    launch = make("eagle3", container=True, behaviour={"scenario": {**SCENARIO, "start_seconds": 0.5}})
    async with start(launch, log) as server:
        assert (await BACKEND.read_back(server.base_url, launch)).differences == ()
        await replay(server, count=2, batch_size=1)
        left = tree(server)
        assert len(list((contract.folder / "containers").iterdir())) == 1
        assert "docker" not in " ".join(left[0].cmdline())  # the container's own first process, not its runner
    assert len(left) == 2
    assert not psutil.wait_procs(left, timeout=5)[1]
    assert not list((contract.folder / "containers").iterdir())


async def test_a_container_sees_nothing_that_is_not_mounted(make: Make, log: Path) -> None:
    launch = make(container=True)
    command = BACKEND.command(launch)
    for hidden in ("{files}:{files}:ro", f"{launch.target}:{launch.target}:ro"):
        at = command.argv.index(hidden)
        await refusal(launch, log, replace(command, argv=(*command.argv[: at - 1], *command.argv[at + 1 :])))
    assert log.read_text().count("FileNotFoundError: [Errno 2] No such file or directory") == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"speculative_config__decoding_type": "Medusa"}, "does not know decoding type Medusa"),
        ({"speculative_config__draft_length": 3}, "draft_length"),
        ({"max_bach_size": 3}, "max_bach_size"),
    ],
)
@pytest.mark.parametrize("version", [OLD, NEW])
async def test_a_file_that_the_engine_refuses_is_told_in_words(
    make: Make, log: Path, version: str, changes: dict[str, Any], sentence: str
) -> None:
    launch = make("ngram", version=version)
    assert sentence in await refusal(launch, log, with_settings(BACKEND.command(launch), **changes))


async def test_a_file_in_the_other_grammar_is_told_in_words(make: Make, log: Path) -> None:
    launch = make("eagle3", version=OLD, behaviour={"version": NEW})
    assert "does not know decoding type Eagle: say which it is (--engine-version)" in await refusal(launch, log)
    launch = make("eagle3", version=NEW, behaviour={"version": OLD})
    assert "does not know decoding type Eagle3: say which it is (--engine-version)" in await refusal(launch, log)


async def test_what_keeps_it_from_starting_is_told_in_words(make: Make, log: Path) -> None:
    launch = make(behaviour={"gpus": 0})
    assert "GPU" in await refusal(launch, log)
    launch = make(arguments=("--no_such_flag=1",))
    assert "no_such_flag" in await refusal(launch, log)


async def test_differences_are_seen(make: Make, log: Path) -> None:
    launch = make("ngram", version=OLD, matched=False, behaviour={"version": "1.2.3"})
    async with start(launch, log) as server:
        settings = await BACKEND.read_back(server.base_url, launch)
        said = log_differences(server.said())
    version, deployed = settings.differences
    assert version == "version is 1.2.3, asked was 1.2.1"
    assert deployed.startswith("as deployed: ")
    assert any(difference.startswith("overlap_scheduler is off with NGRAM") for difference in said)
    limited = {"scenario": {**SCENARIO, "max_batch_size": 4}}
    launch = make("eagle3", version=NEW, behaviour=limited)
    async with start(launch, log, with_settings(BACKEND.command(launch), disable_overlap_scheduler=True)) as server:
        settings = await BACKEND.read_back(server.base_url, launch)
    assert settings.differences == (
        "max_batch_size is 4, asked was 8",
        "the scheduler is in mode non_overlap, asked was the other",
    )


async def test_a_fall_back_to_greedy_decoding_is_lossy_where_tokens_are_sampled(make: Make, log: Path) -> None:
    launch = make("mtp", arguments=("speculative_config.allow_advanced_sampling=false",))
    async with start(launch, log) as server:
        said = server.said()
    assert lossy_log(said, 0.0) == ()
    assert lossy_log(said, 0.7) == ("the engine falls back to greedy decoding for MTP, whatever the temperature",)


async def test_without_iteration_statistics_acceptance_is_that_of_requests(make: Make, log: Path) -> None:
    launch = make("ngram")
    async with start(launch, log, with_settings(BACKEND.command(launch), enable_iter_perf_stats=False)) as server:
        settings = await BACKEND.read_back(server.base_url, launch)
        async with BACKEND.probe(server.base_url) as probe:
            run = await replay(server, count=4)
    assert settings.kv_capacity_tokens is None
    assert "told no iteration statistics: acceptance is known from requests alone" in settings.differences[0]
    assert probe.counters is None
    assert from_requests(run.traces, 3) is not None


async def test_iterations_that_others_read_void_the_counters(make: Make, log: Path) -> None:
    async with start(make("ngram"), log) as server, BACKEND.probe(server.base_url) as probe:

        async def read() -> None:
            async with aiohttp.ClientSession(server.base_url) as session:
                while True:
                    async with session.get("/metrics") as response:
                        await response.read()

        await replay(server, count=4)
        thief = asyncio.create_task(read())
        await replay(server)
        thief.cancel()
        with suppress(asyncio.CancelledError):
            await thief
        await replay(server, count=4)
    assert probe.counters is None


async def test_requests_that_the_engine_refuses(make: Make, log: Path) -> None:
    async with start(make(), log) as server, aiohttp.ClientSession(server.base_url) as session:
        bodies: list[dict[str, Any]] = [{"return_token_ids": True}, {"top_k": -1}, {"top_k": None}, {}]
        answers = []
        for body in bodies:
            asked = {"model": "target", "prompt": "hello", "max_tokens": 3, **body}
            async with session.post("/v1/completions", json=asked) as response:
                answers.append(response.status)
    assert answers == [400, 400, 400, 200]
