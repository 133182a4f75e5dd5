"""Which engine is it, and what does it tell? By small answers in the shape of each engine's own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from specbench.access import Access
from specbench.backends.attach import evidence
from specbench.backends.attach.backend import find
from specbench.backends.attach.counters import between, under_way
from specbench.backends.attach.engines import (
    ENGINES,
    LLAMA_CPP_SERVER,
    OTHER,
    SGLANG_SERVER,
    TENSORRT_LLM_SERVER,
    TGI,
    VLLM_SERVER,
    Engine,
    recognise,
)
from specbench.backends.attach.evidence import Evidence, gather
from specbench.errors import SpecbenchError
from specbench.telemetry import prometheus
from specbench.telemetry.prometheus import parse

MODEL = {"id": "m", "object": "model"}
TGI_METRICS = """\
# TYPE tgi_request_generated_tokens summary
tgi_request_generated_tokens_sum {tokens}
tgi_request_generated_tokens_count {requests}
# TYPE tgi_request_skipped_tokens summary
tgi_request_skipped_tokens_sum {accepted}
tgi_request_skipped_tokens_count {steps}
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size {running}
"""
LLAMA_CPP_METRICS = """\
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total {tokens}
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing {running}
"""


@pytest.mark.parametrize(
    ("evidence", "engine"),
    [
        (Evidence(models=({**MODEL, "owned_by": "vllm"},)), VLLM_SERVER),
        (Evidence(metrics=parse("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n")), VLLM_SERVER),
        (Evidence(models=({**MODEL, "owned_by": "sglang"},)), SGLANG_SERVER),
        (Evidence(server_info={"internal_states": [{}], "version": "0.5.23"}), SGLANG_SERVER),
        (Evidence(models=({**MODEL, "owned_by": "tensorrt_llm"},)), TENSORRT_LLM_SERVER),
        (Evidence(metrics=parse("# TYPE tgi_queue_size gauge\ntgi_queue_size 0\n")), TGI),
        (Evidence(models=({**MODEL, "owned_by": "llamacpp"},)), LLAMA_CPP_SERVER),
        (Evidence(server="llama.cpp"), LLAMA_CPP_SERVER),
        (Evidence(models=({**MODEL, "owned_by": "somebody"},), server="nginx"), OTHER),
        (Evidence(), OTHER),
    ],
)
def test_an_engine_is_known_by_what_it_says(evidence: Evidence, engine: Engine) -> None:
    assert recognise(evidence) is engine


def test_every_engine_has_a_way_to_be_asked() -> None:
    assert all(engine.dialects for engine in ENGINES)
    assert ENGINES[-1] is OTHER


def test_vllm_tells_its_speculation_with_and_without_development_mode() -> None:
    config = {"speculative_config": {"method": "eagle3", "num_speculative_tokens": 3}, "model_config": {"dtype": "x"}}
    told = VLLM_SERVER.told(Evidence(server_info={"vllm_config": config}))
    assert (told.method, told.gamma, told.settings) == ("eagle3", 3, {"dtype": "x"})
    plain = "# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total 3\n"
    assert VLLM_SERVER.told(Evidence(metrics=parse(plain))).method == "none"
    per_position = "".join(
        f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="{e}",position="{k}"}} 0\n'
        for e in range(2)
        for k in range(4)
    )
    drafts = "# TYPE vllm:spec_decode_num_drafts counter\nvllm:spec_decode_num_drafts_total 0\n"
    told = VLLM_SERVER.told(Evidence(metrics=parse(plain + drafts + per_position)))
    assert (told.method, told.gamma) == ("unknown", 4)
    assert VLLM_SERVER.told(Evidence()).method is None  # not reported, which is not `none`


@pytest.mark.parametrize(
    ("algorithm", "method"),
    [("EAGLE3", "eagle3"), ("STANDALONE", "draft_model"), ("NEXTN", "mtp"), ("NGRAM", "ngram"), ("DFLASH", "unknown")],
)
def test_sglang_names_methods_its_own_way(algorithm: str, method: str) -> None:
    info = {"speculative_algorithm": algorithm, "speculative_num_steps": 3, "speculative_num_draft_tokens": 4}
    told = SGLANG_SERVER.told(Evidence(server_info=info))
    assert (told.method, told.gamma) == (method, 3)
    assert SGLANG_SERVER.told(Evidence(server_info={"speculative_algorithm": None})).method == "none"


def test_llama_cpp_says_none_in_its_properties_and_speculates_all_the_same() -> None:
    props = {"default_generation_settings": {"params": {"speculative.types": "none"}, "n_ctx": 2048}, "total_slots": 4}
    told = LLAMA_CPP_SERVER.told(Evidence(props=props, slots=({"id": 0, "speculative": True},)))
    assert told.method == "unknown"
    assert told.settings == {"total_slots": 4, "n_ctx": 2048}
    assert LLAMA_CPP_SERVER.told(Evidence(props=props, slots=({"speculative": False},))).method == "none"
    assert LLAMA_CPP_SERVER.told(Evidence(props=props)).method is None


def test_text_generation_inference_counts_steps_with_the_prefills_among_them() -> None:
    """Three requests of 20 tokens: 3 prefills, then steps that gave 57 tokens, 27 of them accepted drafts."""
    before = parse(TGI_METRICS.format(tokens=100, requests=5, accepted=40, steps=60, running=2))
    after = parse(TGI_METRICS.format(tokens=160, requests=8, accepted=67, steps=93, running=0))
    counted = between(before, after, TGI, None)
    assert counted is not None
    assert counted.acceptance is not None
    assert (counted.acceptance.steps, counted.acceptance.accepted) == (30, 27)
    assert counted.acceptance.mean_length() == 1.9
    assert (counted.generated_tokens, counted.finished_requests, counted.others_before) == (60, 3, 2)


def test_a_counter_that_went_back_voids_all() -> None:
    before = parse(TGI_METRICS.format(tokens=100, requests=5, accepted=40, steps=60, running=0))
    after = parse(TGI_METRICS.format(tokens=10, requests=1, accepted=4, steps=6, running=0))
    counted = between(before, after, TGI, None)
    assert counted is not None
    assert counted.reset


def test_a_server_without_counters_reports_nothing_never_zero() -> None:
    assert between({}, {}, OTHER, None) is None
    assert between({}, {}, VLLM_SERVER, None) is None
    assert under_way({}, VLLM_SERVER) is None


async def test_tgi_and_llama_cpp_are_found_over_http(fake: Any) -> None:
    tgi = await fake(
        {
            "/v1/models": {"data": [{**MODEL, "owned_by": "m"}]},
            "/info": {
                "model_id": "m",
                "router": "text-generation-router",
                "version": "3.3.6",
                "max_total_tokens": 4096,
            },
            "/metrics": TGI_METRICS.format(tokens=0, requests=0, accepted=0, steps=0, running=0),
        }
    )
    llama = await fake(
        {
            "/v1/models": {"data": [{**MODEL, "owned_by": "llamacpp"}]},
            "/props": {"total_slots": 2, "build_info": "b7000", "model_path": "m.gguf"},
            "/slots": [{"id": 0, "speculative": True}],
            "/metrics": LLAMA_CPP_METRICS.format(tokens=0, running=1),
        },
        headers={"Server": "llama.cpp"},
    )
    found = await find(tgi)
    assert (found.engine, found.version, found.told.method) == (TGI, "3.3.6", None)
    assert found.told.settings == {"max_total_tokens": 4096}
    found = await find(llama)
    assert (found.engine, found.version, found.told.method) == (LLAMA_CPP_SERVER, "b7000", "unknown")
    assert under_way(found.evidence.metrics, found.engine) == 1


async def test_what_a_server_tells_of_itself_holds_no_secret(fake: Any) -> None:
    key = "sk-0123456789"
    url = await fake(
        {
            "/v1/models": {"data": [{**MODEL, "owned_by": "sglang", "note": f"for {key}"}]},
            "/server_info": {
                "internal_states": [],
                "api_key": "another-key",
                "vllm_env": {"X": "another-key"},
                "aws_access_key_id": "another-key",
                "private_key": "another-key",
                "launch_command": "sglang serve --api-key another-key",
                "nested": {"auth": "another-key", "dtype": "bfloat16"},
                "greeting": f"hello {key}",
                "tp_size": 2,
            },
        }
    )
    evidence = await gather(url, Access(secrets=(key,)))
    assert evidence.server_info == {
        "internal_states": [],
        "nested": {"dtype": "bfloat16"},
        "greeting": "hello ***",
        "tp_size": 2,
    }
    assert key not in repr(evidence)
    assert "another-key" not in repr(evidence)


async def test_nobody_there_is_a_sentence() -> None:
    with pytest.raises(SpecbenchError, match=r"no server answers at http://127\.0\.0\.1:9 "):
        await gather("http://127.0.0.1:9", Access())


async def test_an_answer_without_end_is_a_sentence_and_not_kept(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    sent = 0

    async def endless(request: web.Request) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        with suppress(ConnectionError):
            while sent < 64 << 20:
                await response.write(b'{"data": [' * 10_000)
                sent += 100_000
        return response

    app = web.Application()
    app.router.add_get("/v1/models", endless)
    monkeypatch.setattr(evidence, "MOST_JSON", 1 << 20)
    async with TestServer(app) as server:
        with pytest.raises(SpecbenchError, match=r"/v1/models answers with more than 1 MiB"):
            await gather(str(server.make_url("")).rstrip("/"), Access())
    assert sent < 32 << 20


async def test_a_long_reading_of_metrics_is_a_sentence(monkeypatch: pytest.MonkeyPatch, fake: Any) -> None:
    url = await fake({"/metrics": "# no end\n" * 200_000})
    monkeypatch.setattr(prometheus, "MOST_METRICS", 1 << 20)
    with pytest.raises(SpecbenchError, match=r"/metrics answers with more than 1 MiB"):
        await prometheus.scrape(url)


async def test_what_is_not_utf_8_or_nested_without_end_tells_nothing(fake: Any) -> None:
    found = await gather(await fake({"/v1/models": b"\xff\xfe broken", "/info": "[" * 100_000}), Access())
    assert (found.models, found.info) == ((), {})


async def test_a_silent_server_is_waited_for_as_long_as_was_said(fake: Any) -> None:
    async def silent(request: web.Request) -> web.Response:
        await asyncio.sleep(2)
        return web.Response()

    app = web.Application()
    app.router.add_get("/v1/models", silent)
    async with TestServer(app) as server:
        with pytest.raises(SpecbenchError, match=r"\(no answer within 0\.1 s\)"):
            await find(str(server.make_url("")).rstrip("/"), patience=0.1)
