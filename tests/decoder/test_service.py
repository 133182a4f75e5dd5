"""The engine behind the wire: text, stops, disconnects, refusals and figures, with a real engine on its own thread."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from prometheus_client.parser import text_string_to_metric_families
from transformers import AutoTokenizer

from specbench.decoder.load import load_engine
from specbench.decoder.request import RequestFailed
from specbench.decoder.service import DecoderService, RunningGeneration
from specbench.decoder.worker import Worker
from specbench.wire.app import make_runner
from specbench.wire.service import Delta, GenerationRequest, RequestError

GREEDY = {"temperature": 0.0, "ignore_eos": True}


@pytest.fixture
async def serve(target: Path) -> AsyncIterator[Callable[..., DecoderService]]:
    """A service over the tiny target, which by default drafts for itself."""
    services = []

    def make(method: str = "draft_model", **settings: Any) -> DecoderService:
        engine = load_engine(
            target,
            method=method,
            drafter=target if method == "draft_model" else None,
            **{"gamma": 0 if method == "none" else 3, "max_model_len": 128, "max_batch_size": 2, **settings},
        )
        services.append(
            DecoderService(Worker(lambda: engine), AutoTokenizer.from_pretrained(target), "tiny", {"version": "1.2"})
        )
        return services[-1]

    yield make
    for service in services:
        service.stop()


async def finish(generation: RunningGeneration) -> tuple[str, list[int], list[Delta]]:
    """Text, token ids and deltas of a whole generation."""
    deltas = [delta async for delta in generation]
    return "".join(d.text for d in deltas), [t for d in deltas for t in d.token_ids], deltas


async def until_idle(service: DecoderService) -> None:
    while metric(service, "num_requests_running") or metric(service, "num_requests_waiting"):
        await asyncio.sleep(0.01)


def metric(service: DecoderService, name: str, **labels: str) -> float:
    samples = [s for family in text_string_to_metric_families(service.prometheus()) for s in family.samples]
    (value,) = [s.value for s in samples if s.name == f"specbench:{name}" and s.labels == labels]
    return value


async def test_text_and_tokens_are_the_same_output(serve: Callable[..., DecoderService], target: Path) -> None:
    service = serve()
    text, ids, deltas = await finish(await service.submit(GenerationRequest(prompt="hello", max_tokens=30, **GREEDY)))
    assert text == AutoTokenizer.from_pretrained(target).decode(ids, skip_special_tokens=True)
    assert [len(d.token_ids) for d in deltas] == [1, 4, 4, 4, 4, 4, 4, 4, 1]
    assert [d.finish_reason for d in deltas] == [None] * 8 + ["length"]


async def test_text_ids_and_messages_make_the_same_prompt(serve: Callable[..., DecoderService], target: Path) -> None:
    service, tokenizer = serve("none"), AutoTokenizer.from_pretrained(target)
    text = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    ids = tuple(tokenizer.encode(text))
    forms: list[dict[str, Any]] = [
        {"prompt": text},
        {"prompt": ids},
        {"messages": ({"role": "user", "content": "hi"},)},
    ]
    answers = []
    for form in forms:
        generation = await service.submit(GenerationRequest(max_tokens=9, **form, **GREEDY))
        assert generation.prompt_token_ids == ids
        answers.append((await finish(generation))[:2])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("method", ["none", "ngram", "draft_model"])
async def test_a_stop_string_ends_text_tokens_and_row_at_the_same_place_for_every_method(
    serve: Callable[..., DecoderService], target: Path, method: str
) -> None:
    prompt = {"prompt": "hello", "max_tokens": 40, **GREEDY}
    text, ids, _ = await finish(await serve("none").submit(GenerationRequest(**prompt)))
    at = next(i for i in range(3, len(text) - 1) if text[i : i + 2].isascii() and text.find(text[i : i + 2]) == i)
    stop = text[at : at + 2]
    service = serve(method)
    cut, cut_ids, deltas = await finish(await service.submit(GenerationRequest(stop=("no such text", stop), **prompt)))
    assert cut == text[:at]
    assert deltas[-1].finish_reason == "stop"
    assert cut_ids == ids[: len(cut_ids)]
    decoded = AutoTokenizer.from_pretrained(target).decode(cut_ids, skip_special_tokens=True)
    assert decoded.endswith(stop)
    assert metric(service, "num_requests_running") == 0
    assert metric(service, "generation_tokens_total") == len(cut_ids)


async def test_a_seed_fixes_the_tokens_and_none_does_not(serve: Callable[..., DecoderService]) -> None:
    service = serve("none")

    async def sample(seed: int | None) -> list[int]:
        request = GenerationRequest(prompt="hello", max_tokens=30, temperature=1.0, ignore_eos=True, seed=seed)
        return (await finish(await service.submit(request)))[1]

    assert await sample(-5) == await sample(-5)
    assert await sample(None) != await sample(None)


async def test_logprobs_name_the_tokens(serve: Callable[..., DecoderService]) -> None:
    request = GenerationRequest(prompt="hello", max_tokens=6, logprobs=2, **GREEDY)
    _, ids, deltas = await finish(await serve().submit(request))
    entries = [entry for d in deltas for entry in d.logprobs or ()]
    assert [entry.token_id for entry in entries] == ids
    for entry in entries:
        # Greedily, the chosen token is the most likely one.
        assert entry.top[0] == (entry.token_id, entry.token, pytest.approx(entry.logprob))
        assert len(entry.top) == 2
        assert entry.logprob <= 0


async def test_acceptance_is_reported_per_request_and_agrees_with_the_counters(
    serve: Callable[..., DecoderService],
) -> None:
    service = serve()
    generation = await service.submit(GenerationRequest(prompt="hello", max_tokens=16, **GREEDY))
    await finish(generation)
    figures = generation.metrics()
    assert figures is not None
    assert figures["speculative_decoding"] == {
        # Three drafts of three; then two tokens are left, so one is drafted.
        "mean_acceptance_length": 1 + 11 / 4,
        "draft_acceptance_rate": 1.0,
        "num_spec_steps": 4,
        "num_draft_tokens": 11,
        "num_accepted_draft_tokens": 11,
        "num_spec_tokens": 3,
        "acceptance_histogram": [0, 0, 1, 3],
        "per_step_drafted": [3, 3, 3, 2],
        "per_step_accepted": [3, 3, 3, 2],
    }
    assert metric(service, "num_steps_total") == metric(service, "spec_decode_num_drafts_total") == 4
    assert metric(service, "spec_decode_num_draft_tokens_total") == 11
    assert metric(service, "spec_decode_num_accepted_tokens_total") == 11
    positions = [metric(service, "spec_decode_num_accepted_tokens_per_pos_total", position=p) for p in "012"]
    assert positions == [4, 4, 3]
    assert metric(service, "generation_tokens_total") == 16
    phases = ("prefill", "draft", "verify", "accept", "host")
    assert all(metric(service, f"{phase}_seconds_total") > 0 for phase in phases)
    assert metric(service, "num_passes_total") == 4
    assert metric(service, "verify_bytes_total") > 0
    assert metric(service, "kv_cache_tokens_total_capacity") == 256
    assert metric(service, "kv_cache_usage_perc") == 0


async def test_plain_decoding_reports_no_acceptance(serve: Callable[..., DecoderService]) -> None:
    generation = await serve("none").submit(GenerationRequest(prompt="hello", max_tokens=4, **GREEDY))
    await finish(generation)
    assert generation.metrics() is None


async def test_server_info_tells_what_was_resolved(serve: Callable[..., DecoderService]) -> None:
    info = serve(verification="coupled").server_info()
    assert info == json.loads(json.dumps(info))
    assert (
        info
        | {
            "version": "1.2",
            "gamma": 3,
            "verification": "coupled",
            "max_batch_size": 2,
            "max_model_len": 128,
            "kv_capacity_tokens": 256,
            "kv_bytes_per_token": 2 * 4 * 2 * 8 * 4,
            "drafter_kv_bytes_per_token": 2 * 4 * 2 * 8 * 4,
        }
        == info
    )
    assert info["weights_bytes"] == info["drafter_weights_bytes"] > 0


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"prompt": "a" * 128}, r"128 tokens.*128 \(max_model_len\)"),
        ({"prompt": "a" * 100, "max_tokens": 29}, "100 tokens and max_tokens is 29.*128"),
        ({"prompt": ""}, "prompt is empty"),
        ({"prompt": (4, 258)}, "outside the vocabulary"),
        ({"prompt": "a", "max_tokens": 5, "seed": 2**63}, "seed must fit"),
        ({"messages": ({"role": "tool", "content": "4"},)}, "chat template refuses.*no tools here"),
    ],
)
async def test_what_cannot_be_served_is_refused_with_the_numbers(
    serve: Callable[..., DecoderService], request_: dict[str, Any], words: str
) -> None:
    service = serve("none")
    with pytest.raises(RequestError, match=words):
        await service.submit(GenerationRequest(**request_))
    assert metric(service, "num_requests_waiting") == 0


async def test_without_a_limit_a_request_may_fill_the_model_length(serve: Callable[..., DecoderService]) -> None:
    _, ids, deltas = await finish(await serve().submit(GenerationRequest(prompt="a" * 100, **GREEDY)))
    assert (len(ids), deltas[-1].finish_reason) == (28, "length")


async def test_closing_frees_the_row_and_the_place_in_the_queue(serve: Callable[..., DecoderService]) -> None:
    service = serve("none")
    generations = [await service.submit(GenerationRequest(prompt=f"{i}", max_tokens=120, **GREEDY)) for i in range(4)]
    await anext(aiter(generations[0]))
    for generation in (generations[0], generations[3]):
        await generation.close()
    rest = [await finish(generation) for generation in generations[1:3]]
    assert [len(ids) for _, ids, _ in rest] == [120, 120]
    await until_idle(service)
    assert metric(service, "generation_tokens_total") < 480


async def test_a_broken_engine_is_said_and_leaves_nobody_waiting(
    serve: Callable[..., DecoderService], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve("none")
    assert service.health() is None

    def explode() -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(service._engine, "step", explode)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the engine has failed: no room"):
            await finish(await service.submit(GenerationRequest(prompt="hello", max_tokens=4, **GREEDY)))
        assert service.health() == "the engine has failed: MemoryError: no room"


async def test_a_request_that_fails_on_its_way_in_fails_alone(
    serve: Callable[..., DecoderService], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve("none")
    running = await service.submit(GenerationRequest(prompt="hello", max_tokens=120, **GREEDY))
    begun = anext(aiter(running))
    await begun

    def explode(*args: Any) -> None:
        raise MemoryError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(service._engine.drafter, "prefill", explode)
        with pytest.raises(RequestFailed, match=r"could not be begun .*MemoryError: no room"):
            await finish(await service.submit(GenerationRequest(prompt="hello", max_tokens=4, **GREEDY)))
    assert service.health() is None
    for generation, count in (
        (running, 119),
        (await service.submit(GenerationRequest(prompt="hello", max_tokens=4, **GREEDY)), 4),
    ):
        assert len((await finish(generation))[1]) == count


@pytest.mark.parametrize("top", [{"top_p": 1e-300}, {"top_k": 2**63}, {"top_k": 2**70, "seed": -(2**63)}])
async def test_extreme_parameters_are_served(serve: Callable[..., DecoderService], top: dict[str, Any]) -> None:
    request = GenerationRequest(prompt="hello", max_tokens=4, temperature=1.0, ignore_eos=True, **top)
    assert len((await finish(await serve("none").submit(request)))[1]) == 4


@pytest.mark.parametrize(
    "option",
    [
        {"tokenize": False},
        {"return_tensors": "pt"},
        {"chat_template": "{{ 1 / 0 }}"},
        {"add_generation_prompt": False},
        {"max_length": 1},
    ],
)
async def test_a_request_has_no_say_in_how_the_template_is_applied(
    serve: Callable[..., DecoderService], option: dict[str, Any]
) -> None:
    request = GenerationRequest(messages=({"role": "user", "content": "hi"},), chat_template_kwargs=option)
    with pytest.raises(RequestError, match=f"chat_template_kwargs may not set {next(iter(option))}: ") as refusal:
        await serve("none").submit(request)
    assert (refusal.value.status, refusal.value.param) == (400, "chat_template_kwargs")


async def test_data_for_the_template_reaches_it(serve: Callable[..., DecoderService]) -> None:
    service = serve("none")
    service._tokenizer.chat_template = "{{ mood }}{{ tools[0].name }}"
    data = {"mood": "glad", "tools": [{"name": "ruler"}]}
    request = GenerationRequest(messages=({"role": "user", "content": "hi"},), chat_template_kwargs=data, max_tokens=1)
    generation = await service.submit(request)
    assert service._tokenizer.decode(generation.prompt_token_ids) == "gladruler"
    await finish(generation)


@pytest.mark.parametrize("form", ["prompt", "messages"])
async def test_a_long_prompt_is_tokenized_beside_the_event_loop(
    serve: Callable[..., DecoderService], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    service, loop = serve("none"), asyncio.get_running_loop()
    at_work = asyncio.Event()
    encode, free = service._tokenizer.encode, threading.Event()

    def slow(text: str, **options: bool) -> list[int]:
        loop.call_soon_threadsafe(at_work.set)
        assert free.wait(60)
        ids: list[int] = encode(text, **options)
        return ids

    monkeypatch.setattr(service._tokenizer, "encode", slow)
    text = "a" * 20_000
    prompt: Any = text if form == "prompt" else ({"role": "user", "content": text},)
    task = asyncio.create_task(service.submit(GenerationRequest(**{form: prompt})))
    await at_work.wait()
    free.set()
    with pytest.raises(RequestError, match=r"tokens.*128 \(max_model_len\)"):
        await task


@asynccontextmanager
async def over_http(service: DecoderService) -> AsyncIterator[tuple[ClientSession, str]]:
    runner = make_runner(service)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    async with ClientSession() as session:
        yield session, f"http://{host}:{port}"
    await runner.cleanup()


async def test_a_client_that_disconnects_frees_its_row(serve: Callable[..., DecoderService]) -> None:
    service = serve("none", max_batch_size=1)
    body = {"prompt": "hello", "max_tokens": 120, "stream": True, **GREEDY}
    async with over_http(service) as (session, url):
        async with session.post(f"{url}/v1/completions", json=body) as response:
            await response.content.readany()
            response.close()
        await until_idle(service)
        assert metric(service, "generation_tokens_total") < 120


async def test_the_final_chunk_carries_usage_and_acceptance(serve: Callable[..., DecoderService]) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": True, **GREEDY}
    body |= {"stream_options": {"include_usage": True}, "return_token_ids": True}
    async with (
        over_http(serve()) as (session, url),
        session.post(f"{url}/v1/chat/completions", json=body) as response,
    ):
        lines = (await response.text()).split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    ids = [token for event in events for choice in event["choices"] for token in choice.get("token_ids") or ()]
    assert len(ids) == events[-1]["usage"]["completion_tokens"] == 9
    assert events[-1]["metrics"]["speculative_decoding"]["per_step_accepted"] == [3, 3]


async def test_under_a_rule_every_step_tells_what_it_might_draft(serve: Callable[..., DecoderService]) -> None:
    service = serve(gamma="schedule:1=3+2=0")
    assert service.server_info()["policy"] == "schedule:1=3+2=0"
    generation = await service.submit(GenerationRequest(prompt="hello", max_tokens=16, **GREEDY))
    await finish(generation)
    figures = generation.metrics()
    assert figures is not None
    assert figures["speculative_decoding"]["per_step_gamma"] == [3, 3, 3, 3]
    assert figures["speculative_decoding"]["per_step_drafted"] == [3, 3, 3, 2]
