"""The engines' own shapes, as their contracts have them, asked for with plain HTTP."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from specbench.telemetry.prometheus import parse

SCENARIO = {
    "step": {"weights_ms": 1},
    "output": {"tokens": 60},
    "counters": {"ranks": 2},
    "kv_capacity_tokens": 50_000,
}


@pytest.fixture
async def ask(simulate: Any) -> Any:
    """`await ask(engine, path, body)` → status and body of a server of that engine; without a body it is a GET."""
    servers: dict[str, Any] = {}

    async def asked(engine: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, Any]:
        if engine not in servers:
            servers[engine] = await simulate({**SCENARIO, "engine": engine})
        async with (
            aiohttp.ClientSession(servers[engine].url) as session,
            session.request("GET" if body is None else "POST", path, json=body) as response,
        ):
            text = await response.text()
        return response.status, json.loads(text) if text[:1] in ("{", "[") else text

    return asked


def events(stream: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]


class TestVllm:
    async def test_a_stream_ends_with_usage_and_per_request_metrics(self, ask: Any) -> None:
        body = {
            "prompt": "hello",
            "max_tokens": 100,
            "stream": True,
            "return_token_ids": True,
            "stream_options": {"include_usage": True},
        }
        _, stream = await ask("vllm", "/v1/completions", body)
        *chunks, last = events(stream)
        assert chunks[0]["choices"][0]["prompt_token_ids"]
        ids = [token for chunk in chunks for token in chunk["choices"][0]["token_ids"]]
        assert last["usage"]["completion_tokens"] == len(ids) == 60
        report = last["metrics"]["speculative_decoding"]
        assert report["num_spec_tokens"] == 4
        assert sum(report["per_step_accepted"]) == report["num_accepted_draft_tokens"]
        assert sum(report["acceptance_histogram"]) == report["num_spec_steps"] == len(report["per_step_drafted"])

    async def test_counters_stand_by_rank_and_position(self, ask: Any) -> None:
        for number in range(3):
            await ask("vllm", "/v1/completions", {"prompt": f"prompt {number}", "max_tokens": 30})
        metrics = parse((await ask("vllm", "/metrics"))[1])
        drafts = metrics["vllm:spec_decode_num_drafts_total"]
        assert {dict(labels)["engine"] for labels in drafts} == {"0", "1"}
        assert all(value > 0 for value in drafts.values())
        positions = metrics["vllm:spec_decode_num_accepted_tokens_per_pos_total"]
        assert sum(positions.values()) == sum(metrics["vllm:spec_decode_num_accepted_tokens_total"].values())
        assert sum(metrics["vllm:generation_tokens_total"].values()) == 90

    async def test_settings_and_version(self, ask: Any) -> None:
        assert (await ask("vllm", "/version"))[1] == {"version": "0.32.0"}
        _, info = await ask("vllm", "/server_info?config_format=json")
        assert info["vllm_config"]["speculative_config"] == {"method": "eagle3", "num_speculative_tokens": 4}
        assert info["vllm_config"]["cache_config"]["kv_cache_size_tokens"] == 50_000
        assert info["simulated"]["scenario"] == "simulated"


class TestSglang:
    async def test_acceptance_is_told_on_request_in_an_event_before_the_usage(self, ask: Any) -> None:
        body = {"prompt": "hello", "max_tokens": 40, "stream": True, "stream_options": {"include_usage": True}}
        _, stream = await ask("sglang", "/v1/completions", {**body, "return_spec_tokens_details": True})
        *_, told, usage = events(stream)
        details = told["sglext"]["spec_tokens_details"]
        assert told["choices"] == []
        assert usage["usage"]["completion_tokens"] == 40
        assert details["spec_num_proposed_drafts"] == 4 * details["spec_verify_ct"]
        assert details["spec_accept_length"] == 40 / details["spec_verify_ct"]
        _, silent = await ask("sglang", "/v1/completions", body)
        assert not any("sglext" in event for event in events(silent))

    async def test_generate_streams_tokens_so_far(self, ask: Any) -> None:
        body = {"text": "hello", "sampling_params": {"max_new_tokens": 30, "temperature": 0}, "stream": True}
        _, stream = await ask("sglang", "/generate", body)
        seen = events(stream)
        for before, after in pairwise(seen):
            assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
            assert after["text"].startswith(before["text"])
        last = seen[-1]["meta_info"]
        assert len(seen[-1]["output_ids"]) == last["completion_tokens"] == 30
        assert sum(last["spec_correct_drafts_histogram"]) == last["spec_verify_ct"]
        assert "spec_verify_ct" not in seen[0]["meta_info"]
        _, whole = await ask("sglang", "/generate", {**body, "stream": False})
        assert whole["output_ids"] == seen[-1]["output_ids"]

    @pytest.mark.parametrize(
        ("body", "sentence"),
        [
            ({"text": 3}, "text must be a valid string, got 3"),
            ({"input_ids": ["a"]}, "input_ids[0] must be a valid integer"),
            ({"text": "hello", "sampling_params": [1]}, "sampling_params must be"),
            ({"text": "hello", "sampling_params": {"max_new_tokens": "9"}}, "sampling_params.max_new_tokens must be"),
            ({"sampling_params": {}}, "text or input_ids is missing"),
        ],
    )
    async def test_generate_refuses_what_is_no_request(self, ask: Any, body: dict[str, Any], sentence: str) -> None:
        status, told = await ask("sglang", "/generate", body)
        assert status == 400
        assert sentence in json.dumps(told)

    async def test_gauges_are_of_forty_steps_and_a_flush_clears_them(self, ask: Any) -> None:
        async def state() -> tuple[float, float]:
            metrics = parse((await ask("sglang", "/metrics"))[1])
            info = (await ask("sglang", "/server_info"))[1]
            return (
                sum(metrics["sglang:spec_verify_calls_total"].values()),
                max(rank["avg_spec_accept_length"] for rank in info["internal_states"]),
            )

        await ask("sglang", "/v1/completions", {"prompt": "short", "max_tokens": 30})
        assert (await state())[1] == 0  # fewer than forty steps: nothing is shown yet
        for number in range(10):
            await ask("sglang", "/v1/completions", {"prompt": f"longer {number}", "max_tokens": 60})
        steps, length = await state()
        assert steps > 80
        assert 1 < length <= 5
        assert (await ask("sglang", "/flush_cache", {}))[0] == 200
        assert await state() == (0, 0)


class TestTensorrtLlm:
    async def test_an_unknown_field_is_refused(self, ask: Any) -> None:
        status, answer = await ask("tensorrt_llm", "/v1/completions", {"prompt": "hello", "return_token_ids": True})
        assert status == 400
        assert "return_token_ids" in answer["error"]["message"]
        assert (await ask("tensorrt_llm", "/v1/completions", {"prompt": "hello", "top_k": -1}))[0] == 400

    async def test_a_request_tells_its_tokens_per_iteration_and_metrics_are_drained(self, ask: Any) -> None:
        _, answer = await ask("tensorrt_llm", "/v1/completions", {"prompt": "hello", "max_tokens": 40})
        mean = answer["choices"][0]["avg_decoded_tokens_per_iter"]
        _, iterations = await ask("tensorrt_llm", "/metrics")
        assert len(iterations) == pytest.approx(40 / mean)
        assert [entry["iter"] for entry in iterations] == list(range(1, len(iterations) + 1))
        stats = [entry["specDecodingStats"] for entry in iterations]
        assert sum(s["numDraftTokens"] for s in stats) == 4 * (len(iterations) - 1)
        assert (await ask("tensorrt_llm", "/metrics"))[1] == []


async def test_outputs_are_equal_in_every_format_and_at_every_gamma(simulate: Any) -> None:
    texts = set()
    for engine, gamma in (("vllm", 0), ("vllm", 4), ("sglang", 2), ("tensorrt_llm", 7)):
        server = await simulate({**SCENARIO, "engine": engine}, method="eagle3" if gamma else "none", gamma=gamma)
        body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 50}
        async with (
            aiohttp.ClientSession(server.url) as session,
            session.post("/v1/chat/completions", json=body) as response,
        ):
            texts.add((await response.json())["choices"][0]["message"]["content"])
    assert len(texts) == 1
