"""Sweeps over servers that already run: the known truth is recovered, mistakes are refused, secrets stay secret."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from specbench.analysis.throughput import throughput
from specbench.backends.base import Command
from specbench.backends.process import run_server
from specbench.errors import SpecbenchError
from specbench.replay.dialect import OPENAI, OPENAI_CONTINUOUS, SGLANG, TENSORRT_LLM, VLLM
from specbench.replay.request import RequestSpec
from specbench.simulated.truth import TrueRequest, counts
from specbench.store.run import RunStore
from specbench.sweep.attaching import Attached, attach
from specbench.sweep.config_file import load_config
from specbench.sweep.prepare import load_workloads

KEY = "sk-gateway/4711+secret"
SCENARIO: dict[str, Any] = {
    "drafting": {"acceptance": {"conditional": [0.8, 0.6, 0.5]}, "spread": 0.1},
    "step": {"weights_ms": 12, "per_sequence_ms": 0.2},
    "prefill": {"fixed_ms": 12},
    "output": {"tokens": 30, "sigma": 0.3},
}


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "chat.jsonl"
    lines = [{"id": str(i), "messages": [{"role": "user", "content": f"Question {i}?"}]} for i in range(8)]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


async def asked(workload: Path, url: str, **given: Any) -> Attached:
    settings = load_config(None, {"workload": [workload], "backend": "attach", "url": url, **given})
    return await asyncio.to_thread(attach, settings, load_workloads(settings), {}, lambda text: None)


async def sweep(folder: Path, *arguments: object, **env: str) -> subprocess.CompletedProcess[str]:
    """`specbench sweep --backend attach …` as a user runs it."""
    line = [sys.executable, "-m", "specbench", "sweep", "--backend", "attach", *map(str, arguments)]
    return await asyncio.to_thread(
        subprocess.run, line, cwd=folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=300
    )


def pace(requests: Sequence[TrueRequest]) -> float:
    """Tokens per second by the server's own log."""
    seconds = max(r.finished or 0 for r in requests) - min(r.arrived for r in requests)
    return sum(r.output_tokens for r in requests) / seconds


async def test_two_servers_give_their_known_speedup_and_acceptance(
    simulate: Any, workload: Path, tmp_path: Path
) -> None:
    plain, fast = await simulate(SCENARIO, method="none", gamma=0), await simulate(SCENARIO, method="eagle3", gamma=3)
    done = await sweep(
        tmp_path, "--url", fast.url, "--baseline-url", f"{plain.url}/v1", "--workload", workload, "--batch-size", 1,
        "--max-tokens", 40, "--replicates", 2, "--gpu-price", 2, "--output", "run", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["simulated"] is True  # whatever it is attached as
    baseline, cell = told["cells"]
    assert (cell["backend"], cell["method"], cell["gamma"]) == ("attach", "eagle3", 3)
    assert cell["target"] == "simulated"
    assert cell["equivalence"] == "EXACT"
    assert cell["speedup_ci_basis"] == "within one launch, by turns"
    assert baseline["cost_per_million_output_tokens"] > cell["cost_per_million_output_tokens"] > 0
    # The last turn of each server by the log of what it did, and by what the client made of it.
    true = {"none-b1": plain.truth().requests[-8:], "eagle3-g3-b1": fast.truth().requests[-8:]}
    taken = {m.cell.id: m for m in RunStore.open(tmp_path / "run").measurements() if m.replicate == 1}
    for name, requests in true.items():
        assert throughput(taken[f"chat-{name}"]).whole_run == pytest.approx(pace(requests), rel=0.05)
    counted = taken["chat-eagle3-g3-b1"].counters
    known = counts(true["eagle3-g3-b1"], 3)
    assert counted is not None
    assert counted.acceptance is not None
    assert (counted.acceptance.steps, counted.acceptance.accepted) == (known.steps, known.accepted)
    assert (counted.finished_requests, counted.others_before) == (None, 0)
    assert cell["mean_acceptance_length"] == pytest.approx(known.mean_length())
    assert cell["run_speedup"] > 1.3
    assert "other_traffic" not in {mark["code"] for mark in cell["marks"]}


async def test_one_server_gives_acceptance_and_latency_and_no_speedup(
    simulate: Any, workload: Path, tmp_path: Path
) -> None:
    server = await simulate({**SCENARIO, "engine": "tensorrt_llm"}, method="eagle3", gamma=3)
    done = await sweep(
        tmp_path, "--url", server.url, "--workload", workload, "--batch-size", 2, "--max-tokens", 20, "--replicates", 1,
        "--output", "run", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    [cell] = told["cells"]
    assert cell["speedup"] is None
    assert 1 < cell["mean_acceptance_length"] < 4
    assert cell["tpot_ms_p50"] > 0
    assert told["verdict"]["recommendation"] == "NOT ENOUGH EVIDENCE"
    assert "without a baseline there is no speedup (--baseline-url)" in told["verdict"]["text"]
    assert {"no_baseline", "counted_by_usage", "traffic_unseen"} <= {mark["code"] for mark in cell["marks"]}


async def test_sglangs_ngrams_are_no_evidence_unless_its_cache_is_emptied_before_each_measurement(
    simulate: Any, workload: Path, tmp_path: Path
) -> None:
    server = await simulate({**SCENARIO, "engine": "sglang"}, method="ngram", gamma=3)
    for name, more in (("kept", ()), ("emptied", ("--allow-reset",))):
        done = await sweep(
            tmp_path, "--url", server.url, "--workload", workload, "--batch-size", 2, "--max-tokens", 20,
            "--replicates", 1, "--output", name, "--json", *more,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        [cell] = json.loads(done.stdout)["cells"]
        marks = {mark["code"]: mark["text"] for mark in cell["marks"]}
        assert ("contaminated" in marks) is (name == "kept")
        assert name == "emptied" or "--allow-reset" in marks["contaminated"]


@pytest.mark.parametrize(("engine", "dialect"), [("vllm", VLLM), ("sglang", SGLANG), ("tensorrt_llm", TENSORRT_LLM)])
async def test_each_engine_is_asked_in_its_own_way(simulate: Any, workload: Path, engine: str, dialect: Any) -> None:
    server = await simulate({**SCENARIO, "engine": engine}, method="eagle3", gamma=3)
    found = await asked(workload, server.url, method=["eagle3"], gamma=[3])
    assert found.backend.spoken is dialect
    assert found.config.target == "simulated"
    assert "scenario" in found.made_with["simulated"]
    assert (found.config.method, found.config.gamma) == (("eagle3",), (3,))


async def test_a_server_that_speculates_is_no_baseline_and_the_reverse(simulate: Any, workload: Path) -> None:
    plain, fast = await simulate(SCENARIO, method="none", gamma=0), await simulate(SCENARIO, method="eagle3", gamma=3)
    other = await simulate({**SCENARIO, "engine": "sglang"}, method="none", gamma=0)
    for url, given, message in (
        (plain.url, {"baseline_url": fast.url}, "it is no baseline"),
        (plain.url, {"baseline_url": f"{plain.url.replace('127.0.0.1', 'localhost')}"}, "does not speculate"),
        (fast.url, {"baseline_url": other.url}, "the ratio of two engines"),
        (fast.url, {"method": ["ngram"]}, "--method says ngram"),
        (fast.url, {"gamma": [5]}, "drafts 3 tokens"),
        (fast.url, {"method": ["none"]}, "--method says none"),
        (fast.url, {"target": "llama"}, "does not serve 'llama': --target simulated"),
    ):
        with pytest.raises(SpecbenchError) as raised:
            await asked(workload, url, **given)
        assert message in str(raised.value)
    assert (await asked(workload, plain.url)).config.method == ()  # alone it is measured as what it is


async def test_requests_of_others_are_seen(simulate: Any, workload: Path, tmp_path: Path) -> None:
    server = await simulate(SCENARIO, method="eagle3", gamma=3)

    async def second_client() -> None:
        async with server.client() as client:
            for i in range(10_000):
                await client.generate(RequestSpec(i, f"p{i}", 40, prompt="Tell me more.", seed=100_000 + i))

    meddling = asyncio.create_task(second_client())
    try:
        done = await sweep(
            tmp_path, "--url", server.url, "--workload", workload, "--batch-size", 1, "--replicates", 1,
            "--output", "run", "--json",
        )  # fmt: skip
    finally:
        meddling.cancel()
        await asyncio.gather(meddling, return_exceptions=True)
    assert done.returncode == 0, done.stderr
    [cell] = json.loads(done.stdout)["cells"]
    [mark] = [mark for mark in cell["marks"] if mark["code"] == "other_traffic"]
    assert mark["text"].startswith("Void: ")


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[str]:
    """The address of a server that repeats its key wherever it can."""
    (logs := tmp_path / "gateway" / "logs").mkdir(parents=True)
    script = Path(__file__).with_name("gateway.py")
    async with run_server(Command((sys.executable, str(script), "{port}", KEY)), logs / "server.log") as server:
        yield server.base_url


def leaks(folder: Path, *texts: str) -> list[str]:
    """Files below the folder, and texts, that hold the key in any spelling that a reader could use."""
    spellings = [KEY.encode(), KEY.replace("/", "\\/").encode(), KEY[: len(KEY) - 4].encode(), KEY[4:].encode()]
    contents = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    contents |= {f"text {i}": text.encode() for i, text in enumerate(texts)}
    return [name for name, content in contents.items() if any(spelling in content for spelling in spellings)]


async def test_a_secret_is_nowhere_but_in_the_requests(gateway: str, workload: Path, tmp_path: Path) -> None:
    (run := tmp_path / "runs").mkdir()
    common = ("--url", gateway, "--workload", workload, "--batch-size", 2, "--replicates", 2, "--save-events")
    done = await sweep(run, *common, "--api-key-env", "THE_KEY", "--output", "run", "--json", THE_KEY=KEY)
    assert done.returncode == 0, done.stderr
    [cell] = json.loads(done.stdout)["cells"]
    codes = {mark["code"] for mark in cell["marks"]}
    assert {"rate_limited", "many_failed_requests", "traffic_unseen", "counted_by_usage"} <= codes
    assert cell["method"] == "unknown"
    assert cell["mean_acceptance_length"] is None  # not reported
    errors = {t.error for m in RunStore.open(run / "run").measurements() for t in m.traces if t.error}
    assert any("429 (retry after 7): slow down, ***" in error for error in errors)
    assert (run / "run" / "events").is_dir()
    resumed = await sweep(run, "--resume", "--output", "run", "--replicates", 3, THE_KEY=KEY)
    assert resumed.returncode == 0, resumed.stderr
    by_header = (*common, "--header-env", "Authorization=WHOLE", "--output", "other")
    plain = await sweep(run, *by_header, WHOLE=f"Bearer {KEY}", THE_KEY=KEY)
    assert plain.returncode == 0, plain.stderr
    texts = [text for p in (done, resumed, plain) for text in (p.stdout, p.stderr)]
    assert leaks(run, *texts) == []


async def test_who_has_no_key_or_another_is_told_before_anything_is_measured(
    gateway: str, workload: Path, tmp_path: Path
) -> None:
    with pytest.raises(SpecbenchError, match="--api-key-env NAME"):
        await asked(workload, gateway)
    with pytest.raises(SpecbenchError, match="the variable NO_SUCH_VARIABLE is not set"):
        await asked(workload, gateway, api_key_env="NO_SUCH_VARIABLE")
    (run := tmp_path / "runs").mkdir()
    wrong = await sweep(
        run, "--url", gateway, "--workload", workload, "--output", "run", "--api-key-env", "THE_KEY", THE_KEY=f"{KEY}x"
    )
    assert wrong.returncode == 1
    assert "It refuses the key that was given" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    assert list(run.iterdir()) == []
    assert leaks(run, wrong.stdout, wrong.stderr) == []


@asynccontextmanager
async def strict(upstream: str, refuses: Sequence[str]) -> AsyncIterator[str]:
    """A gateway before a server: it hides what that is, and takes no request with one of these words in it."""

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "simulated", "owned_by": "gateway"}]})

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if any(word.encode() in body for word in refuses):
            return web.json_response({"error": {"message": "Extra inputs are not permitted"}}, status=400)
        headers = {"Content-Type": "application/json"}
        async with (
            ClientSession() as session,
            session.post(upstream + request.path, data=body, headers=headers) as told,
        ):
            response = web.StreamResponse(status=told.status, headers={"Content-Type": told.headers["Content-Type"]})
            await response.prepare(request)
            async for data in told.content.iter_any():
                await response.write(data)
            return response

    app = web.Application()
    app.add_routes([web.get("/v1/models", models), web.post("/{path:.*}", forward)])
    server = TestServer(app)
    await server.start_server()
    try:
        yield str(server.make_url("")).rstrip("/")
    finally:
        await server.close()


@pytest.mark.parametrize(
    ("refuses", "dialect"),
    [((), VLLM), (("return_token_ids",), OPENAI_CONTINUOUS), (("return_token_ids", "continuous_usage_stats"), OPENAI)],
)
async def test_a_strict_server_is_asked_for_less_until_it_answers(
    simulate: Any, workload: Path, refuses: tuple[str, ...], dialect: Any
) -> None:
    server = await simulate(SCENARIO, method="eagle3", gamma=3)
    async with strict(server.url, refuses) as url:
        found = await asked(workload, url)
        assert found.backend.spoken is dialect
        assert (found.config.method, found.config.target) == (("unknown",), "simulated")
        with pytest.raises(SpecbenchError, match="does not answer a streamed request: the server answered 400"):
            async with strict(server.url, ("stream",)) as stubborn:
                await asked(workload, stubborn)
